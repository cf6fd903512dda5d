"""Looks at a document in a child process of its own, so that a hostile file ends the child and not a worker.

The child limits its own memory and time before it imports a reader, and says what it finds as JSON lines. Where it
dies over one page, a new one goes on behind that page.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pipeline.adapters.documents.bounds import Bounds, bind, child_environment
from pipeline.adapters.documents.geometry import unreadable_page
from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected
from pipeline.domain.password import Password
from pipeline.domain.recognition import Flag
from pipeline.ports.documents import DocumentLimits, Inspection

_LONGEST_LINE = 4096
_LINES_BESIDE_PAGES = 3
_MOST_DEATHS = 5
"""Pages of one document that may each cost a child; then the document is damaged."""
_OUT_OF_MEMORY = 42
"""The child's exit code when it could not get more memory."""


class BoundedInspector:
    """Inspects each file in a fresh child process; safe to share between threads."""

    def __init__(self, limits: DocumentLimits, *, timeout: timedelta, max_memory_bytes: int) -> None:
        self._limits = limits
        self._timeout = timeout
        self._max_memory_bytes = max_memory_bytes

    def inspect(self, path: Path, password: Password | None = None) -> Inspection:
        """Return what a file holds. Raises: Rejected, with one of the document's codes."""
        return inspect_file(
            path, self._limits, password, timeout=self._timeout, max_memory_bytes=self._max_memory_bytes
        )


def inspect_file(
    path: Path,
    limits: DocumentLimits,
    password: Password | None = None,
    *,
    timeout: timedelta,
    max_memory_bytes: int,
) -> Inspection:
    """Return what a file holds, read in a child with so much time and address space.

    Raises: Rejected, with one of the document's codes; `damaged` where the reader crashed or went over its bounds;
    the page's own code where no page can be read.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    header: dict[str, Any] | None = None
    facts: list[PageFacts] = []
    deaths: list[str] = []
    while len(deaths) < _MOST_DEATHS and time.monotonic() < deadline:
        child = _Child(
            path,
            limits,
            password,
            first_page=len(facts) + 1,
            deadline=deadline,
            max_memory_bytes=max_memory_bytes,
        )
        for line in child.lines():
            if "error" in line:
                raise Rejected(ErrorCode(line["error"]), line["message"])
            if "facts" in line:
                facts.append(_facts(line["facts"]))
            else:
                header = line
        if child.death:
            deaths.append(child.death)
            facts.append(unreadable_page(len(facts) + 1, ErrorCode.PAGE_DAMAGED, limits))
        if header is not None and len(facts) >= header["page_count"]:
            return _judged(header, facts, deaths)
        if header is None or not child.death:
            break
    raise _died(deaths)


def _judged(header: dict[str, Any], facts: list[PageFacts], deaths: list[str]) -> Inspection:
    if all(page.page_class is PageClass.UNREADABLE for page in facts):
        if deaths:
            raise _died(deaths)
        raise _unreadable(ErrorCode(facts[0].error_code or ErrorCode.PAGE_DAMAGED), len(facts))
    return Inspection(
        media_type=header["media_type"],
        page_count=header["page_count"],
        flags=tuple(Flag(**flag) for flag in header["flags"]),
        facts=tuple(facts),
    )


def _died(deaths: list[str]) -> Rejected:
    why = deaths[-1] if deaths else "reading it took too long"
    return Rejected(ErrorCode.DAMAGED, f"The file can't be read: {why}. Export or scan it again.")


def _unreadable(code: ErrorCode, page_count: int) -> Rejected:
    """Return the refusal of a document none of whose pages can be read, for the reason that the first one gave."""
    subject = "The only page" if page_count == 1 else f"Each of the {page_count} pages"
    if code is ErrorCode.PAGE_TOO_LARGE:
        return Rejected(code, f"{subject} is larger than limits.max_page_side_pt: correct its box, or raise the limit.")
    if code is ErrorCode.DECOMPRESSION_BOMB:
        return Rejected(code, f"{subject} has an image over limits.max_image_pixels: shrink it, or raise the limit.")
    return Rejected(ErrorCode.DAMAGED, f"{subject} is damaged: fetch the file again, or scan it again.")


def _facts(fields: dict[str, Any]) -> PageFacts:
    return PageFacts(**{**fields, "page_class": PageClass(fields["page_class"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What a child is told, over its standard input: others may see its arguments."""

    path: str
    password: str | None = field(repr=False)
    limits: dict[str, Any]
    first_page: int
    bounds: dict[str, int]


class _Child:
    """One process that reads one file."""

    def __init__(
        self,
        path: Path,
        limits: DocumentLimits,
        password: Password | None,
        *,
        first_page: int,
        deadline: float,
        max_memory_bytes: int,
    ) -> None:
        time_left = timedelta(seconds=max(0.0, deadline - time.monotonic()))
        self._deadline = deadline
        self._most_lines = limits.max_pages + _LINES_BESIDE_PAGES
        self._order = _Order(
            path=str(path.absolute()),
            password=password.reveal if password else None,
            limits=asdict(limits),
            first_page=first_page,
            bounds=asdict(Bounds.until(time_left, max_memory_bytes=max_memory_bytes)),
        )
        self.death = ""
        """Why it ended before it had said everything; empty where it did not."""

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what the child says, until it ends or has to be ended."""
        # A killed child can't remove its temporary files, so they lie in a folder of ours.
        with tempfile.TemporaryDirectory(prefix="muniment-inspection-", ignore_cleanup_errors=True) as scratch:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(scratch),
                start_new_session=True,
            )
            try:
                self._tell(process)
                yield from self._read(process)
                self._judge(process)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if process.stdout:
                    process.stdout.close()

    def _tell(self, process: "subprocess.Popen[bytes]") -> None:
        """Hand over the order, which the pipe takes at once however slowly it is read."""
        if process.stdin is None:
            raise RuntimeError("a child without a pipe")
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(asdict(self._order)).encode())

    def _read(self, process: "subprocess.Popen[bytes]") -> Iterator[dict[str, Any]]:
        if process.stdout is None:
            raise RuntimeError("a child without a pipe")
        rest = b""
        count = 0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, self._deadline - time.monotonic())):
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    return
                *whole, rest = (rest + piece).split(b"\n")
                count += len(whole)
                if len(rest) > _LONGEST_LINE or count > self._most_lines:
                    self.death = "its reader said too much"
                    return
                yield from map(json.loads, whole)
        self.death = "reading it took too long"

    def _judge(self, process: "subprocess.Popen[bytes]") -> None:
        if self.death:
            return
        try:
            code = process.wait(timeout=max(0.1, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.death = "reading it took too long"
            return
        if code == _OUT_OF_MEMORY:
            self.death = "reading it takes more memory than it may"
        elif code == -signal.SIGXCPU:
            self.death = "reading it took too long"
        elif code:
            self.death = f"its reader crashed ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})"


def _main() -> int:
    """Be the child: say what the document is, then each page's facts, a line each."""
    order = _Order(**json.load(sys.stdin))
    bind(Bounds(**order.bounds))
    from pipeline.adapters.documents.opener import FileOpener  # noqa: PLC0415 - only after the limits are set

    password = Password(order.password) if order.password else None
    try:
        with FileOpener(DocumentLimits(**order.limits)).open(Path(order.path), password=password) as document:
            flags = [asdict(flag) for flag in document.flags]
            _say({"media_type": document.media_type, "page_count": document.page_count, "flags": flags})
            for number in range(order.first_page, document.page_count + 1):
                _say({"facts": asdict(document.facts(number))})
    except PipelineError as error:
        _say({"error": error.code, "message": error.message})
    except MemoryError:
        return _OUT_OF_MEMORY
    return 0


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(_main())
