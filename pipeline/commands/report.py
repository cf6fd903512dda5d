"""What is said of each document when it ends, and what it leaves on disk."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pipeline.adapters.writers import OUTPUTS
from pipeline.commands.access import Access
from pipeline.domain.errors import PipelineError
from pipeline.domain.options import OutputFormat
from pipeline.domain.states import JobState
from pipeline.ports.submissions import JobStatus

_EXIT_CODES = {
    JobState.SUCCEEDED: 0,
    JobState.PARTIAL: 3,
    JobState.REJECTED: 4,
    JobState.FAILED: 5,
    JobState.CANCELLED: 5,
}


def exit_code(results: "Iterable[Result]") -> int:
    """Return the exit code that says the worst of what happened."""
    return max((_EXIT_CODES[JobState(result["state"])] for result in results), default=0)


Result = dict[str, Any]
"""What became of a document, as `run --json` prints it."""


class Report:
    """Saves, and says of each document what became of it; each has a folder of its own."""

    def __init__(self, out: Path, *, says: Callable[[Result], None]) -> None:
        self._out = out
        self._says = says
        self._taken: set[str] = set()
        self.results: list[Result] = []

    def refused(self, path: Path, code: str, message: str) -> None:
        """Report a file that was not even handed in."""
        self._add(
            {
                "job_id": None,
                "source": str(path),
                "state": JobState.REJECTED.value,
                "page_count": None,
                "outcomes": {},
                "outputs": {},
                "error": {"code": code, "message": message},
                "seconds": 0.0,
            }
        )

    def ended(self, path: Path, status: JobStatus, access: Access) -> None:
        """Save a document's outputs and report it."""
        outputs = self._save(path, status, access)
        finished = status.finished_at or datetime.now(UTC)
        error = {"code": status.error_code, "message": status.error_detail} if status.error_code else None
        self._add(
            {
                "job_id": str(status.job_id),
                "source": str(path),
                "state": status.state.value,
                "page_count": status.page_count,
                "outcomes": {outcome.value: count for outcome, count in sorted(status.outcomes.items())},
                "outputs": {name: str(saved) for name, saved in outputs.items()},
                "error": error,
                "seconds": round((finished - status.created_at).total_seconds(), 3),
            }
        )

    def _save(self, path: Path, status: JobStatus, access: Access) -> dict[str, Path]:
        if not status.result_keys:
            return {}
        folder = self._out / self._own_name(path.name)
        folder.mkdir(parents=True, exist_ok=True)
        saved: dict[str, Path] = {}
        for name, key in status.result_keys.items():
            saved[name] = folder / OUTPUTS[OutputFormat(name)].file_name
            try:
                access.save(key, saved[name])
            except PipelineError as error:
                raise click.ClickException(f"{path}: its {name} could not be fetched: {error}") from error
        return saved

    def _own_name(self, name: str) -> str:
        """Return a folder's name that no other document of this call has."""
        own, count = name, 1
        while own in self._taken:
            count += 1
            own = f"{name}-{count}"
        self._taken.add(own)
        return own

    def _add(self, result: Result) -> None:
        self.results.append(result)
        self._says(result)


def say_as_json(result: Result) -> None:
    """Print a document's result as one line of JSON."""
    click.echo(json.dumps(result, ensure_ascii=False))


def say_as_text(result: Result) -> None:
    """Print a document's result for people."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in result["outcomes"].items())
    click.echo(f"{result['source']}: {result['state']}" + (f" ({counts})" if counts else ""))
    if error := result["error"]:
        click.echo(f"    {error['code']}: {error['message']}")
    for saved in result["outputs"].values():
        click.echo(f"    {saved}")
