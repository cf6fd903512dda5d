"""What `run` says of each document when it ends, and what it leaves on disk."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

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


def exit_code(states: Iterable[JobState]) -> int:
    """Return the exit code that says the worst of what happened."""
    return max((_EXIT_CODES[state] for state in states), default=0)


class Report:
    """Prints and saves; each document has a folder of its own."""

    def __init__(self, out: Path, *, as_json: bool) -> None:
        self._out = out
        self._as_json = as_json
        self._taken: set[str] = set()
        self.states: list[JobState] = []

    def refused(self, path: Path, code: str, message: str) -> None:
        """Report a file that was not even handed in."""
        self._print(
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
        self.states.append(JobState.REJECTED)

    def ended(self, path: Path, status: JobStatus, access: Access) -> None:
        """Save a document's outputs and report it."""
        outputs = self._save(path, status, access)
        finished = status.finished_at or datetime.now(UTC)
        error = {"code": status.error_code, "message": status.error_detail} if status.error_code else None
        self._print(
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
        self.states.append(status.state)

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

    def _print(self, result: dict[str, object]) -> None:
        if self._as_json:
            click.echo(json.dumps(result, ensure_ascii=False))
            return
        outcomes: dict[str, int] = result["outcomes"]  # type: ignore[assignment]
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        click.echo(f"{result['source']}: {result['state']}" + (f" ({counts})" if counts else ""))
        if error := result["error"]:
            click.echo(f"    {error['code']}: {error['message']}")  # type: ignore[index]
        for saved in result["outputs"].values():  # type: ignore[attr-defined]
            click.echo(f"    {saved}")
