"""`run`: from files to text in one command, over the running stack or one that is started for it."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from pipeline.commands.interruption import EXIT_INTERRUPTED, interruptible
from pipeline.commands.options import collected, document_options
from pipeline.commands.passwords import given_password, password_options

if TYPE_CHECKING:
    from pipeline.commands.access import Access
    from pipeline.commands.progress import Progress
    from pipeline.commands.report import Report
    from pipeline.ports.submissions import JobStatus, Submission

_OPEN_AT_ONCE = 100
"""Documents of one call that are handed in at the same time; the others wait on disk."""
_POLL_S = 0.5
_CANCEL_WITHIN_S = 30.0


@click.command("run")
@click.argument("files", nargs=-1, required=True, metavar="FILE_OR_FOLDER...", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a document on standard output.")
@password_options
@document_options
def run_command(
    *,
    files: tuple[Path, ...],
    out: Path,
    as_json: bool,
    priority: int,
    password_file: IO[str] | None,
    ask_password: bool,
    **options: object,
) -> None:
    """Recognise files and folders, and write document.json, .md and .txt for each into DIR/<file name>/.

    Uses the running stack if there is one; else starts one and stops it at the end. Exit code: 0 all succeeded,
    3 some are partial, 4 some were rejected, 5 some failed or were cancelled, 2 wrong usage, 130 interrupted.
    """
    from pipeline.ports.submissions import Submission

    paths = _collect(files)
    password = given_password(password_file=password_file, ask_password=ask_password)
    asked = Submission(options=collected(**options), priority=priority, password=password)  # type: ignore[arg-type]
    with interruptible():
        try:
            code = _run(paths, out, as_json=as_json, asked=asked)
        except KeyboardInterrupt:
            click.echo("interrupted: the jobs were cancelled, nothing is left running", err=True)
            code = EXIT_INTERRUPTED
    sys.exit(code)


def _run(paths: Sequence[Path], out: Path, *, as_json: bool, asked: "Submission") -> int:
    from pipeline.commands.report import Report, exit_code, say_as_json, say_as_text

    report = Report(out, says=say_as_json if as_json else say_as_text)
    recognise(paths, report, asked)
    return exit_code(report.results)


def recognise(paths: Sequence[Path], report: "Report", asked: "Submission") -> None:
    """Hand files in and report each as it ends, over the running stack or one that is started for it.

    Args: asked is what all of them have in common.
    """
    from pipeline.commands.access import open_access
    from pipeline.commands.progress import Progress
    from pipeline.domain.errors import PipelineError

    with _running_stack(asked.options), open_access() as access, Progress() as progress:
        batch = _Batch(access=access, report=report, progress=progress, asked=asked)
        try:
            batch.run(paths)
        except BaseException:
            # Whatever ends us: nobody waits for these documents any more.
            with suppress(PipelineError):
                batch.cancel()
            raise


@dataclass(slots=True, kw_only=True)
class _Batch:
    """The documents of one call."""

    access: "Access"
    report: "Report"
    progress: "Progress"
    asked: "Submission"
    """What is said of each of them; the file comes to it."""
    open_jobs: dict[object, Path] = field(default_factory=dict)

    def run(self, paths: Sequence[Path]) -> None:
        """Hand everything in, a window at a time, and report each document as it ends."""
        waiting = list(reversed(paths))
        self.progress.documents(len(paths))
        while waiting or self.open_jobs:
            while waiting and len(self.open_jobs) < _OPEN_AT_ONCE:
                self._submit(waiting.pop())
            if self.open_jobs and not self._collect():
                time.sleep(_POLL_S)

    def cancel(self) -> None:
        """Cancel what has not ended, and wait until none of it is in work."""
        from pipeline.ports.control import Target

        jobs = list(self.open_jobs)
        self.access.control.cancel(Target(job_ids=tuple(jobs)))  # type: ignore[arg-type]
        deadline = time.monotonic() + _CANCEL_WITHIN_S
        while self._statuses(lambda status: not status.state.is_terminal) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _submit(self, path: Path) -> None:
        limit = self.access.settings.limits.max_file_bytes
        try:
            if path.stat().st_size > limit:
                self.report.refused(path, "file_too_large", f"the file has more than {limit} bytes: split it up first")
                return
            key = self.access.upload(path)
        except OSError as error:
            self.report.refused(path, "source_not_allowed", f"the file can't be read: {error.strerror}")
            return
        submission = replace(self.asked, upload_key=key, source_name=path.name)
        self.open_jobs[self.access.submissions.insert(submission)] = path

    def _collect(self) -> bool:
        """Report the documents that have ended since; say whether there were any."""
        statuses = self._statuses(lambda _: True)
        self.progress.update(statuses)
        ended = [status for status in statuses if status.state.is_terminal]
        for status in ended:
            path = self.open_jobs.pop(status.job_id)
            self.report.ended(path, status, self.access)
            self.progress.ended(status)
        return bool(ended)

    def _statuses(self, wanted: "Callable[[JobStatus], bool]") -> "list[JobStatus]":
        found = self.access.submissions.find(list(self.open_jobs))  # type: ignore[arg-type]
        return [status for status in found if wanted(status)]


def _collect(files: Sequence[Path]) -> list[Path]:
    """Return the files named and those in the folders named, each once. Raises: click.UsageError."""
    found: dict[Path, None] = {}
    for path in files:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(path)))
            if not inside:
                raise click.UsageError(f"there is no file in {path}")
            found.update(dict.fromkeys(inside))
        elif path.exists():
            found[path] = None
        else:
            raise click.UsageError(f"there is no file or folder {path}")
    return list(found)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


@contextmanager
def _running_stack(options: Mapping[str, Any]) -> Iterator[None]:
    """Use what runs, or start a stack of our own and stop it at the end.

    Raises: PipelineError (`engine_unavailable`), before anything starts.
    """
    from pipeline.commands.serving import someone_serves
    from pipeline.embedded.stack import read_state, start_owned
    from pipeline.settings import default_home

    if someone_serves():
        yield
        return
    _check_engine(options)
    if read_state(default_home()) is None:
        click.echo("starting the embedded stack ...", err=True)
    handle = start_owned(default_home())
    try:
        yield
    finally:
        handle.stop()


def _check_engine(options: Mapping[str, Any]) -> None:
    """Refuse an engine that can't run on this host, which is the one that will read."""
    from pipeline.engines.registry import Asked, check, told
    from pipeline.settings import read_settings

    devices = read_settings().devices
    name = str(options.get("engine") or devices.engine)
    asked = Asked(languages=tuple(options.get("languages", ())))
    check(name, told(name, devices.engine_options.get(name, {}), asked))
