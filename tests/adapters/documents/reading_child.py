"""Reads strange files as the product does, each in a process of its own under the product's bounds, at 20 ms a file.

The product starts an interpreter for each file, which takes ten times as long as reading it. This has the readers
imported once, and forks: `Readers` is the side that asks, `python -m` this module the one that forks.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pipeline.adapters.documents.bounds import Bounds, bind
from pipeline.domain.document import PageClass
from pipeline.domain.errors import PipelineError
from pipeline.ports.documents import DocumentLimits

UNTYPED = "untyped"
_EXIT_NO_MEMORY = 42
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one file."""

    code: str
    """`ok`, an error code of the file or its first page, or `died`, `late`, `untyped`: an error nobody expected."""
    detail: str
    peak_bytes: int
    seconds: float


class Readers:
    """A process that forks for each file it is given."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def read(self, path: Path) -> Outcome:
        """Open the file, look at all of its pages, and render the first."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))


@contextmanager
def readers(limits: DocumentLimits, *, timeout: timedelta, max_memory_bytes: int) -> Iterator[Readers]:
    """Start a process that reads within these limits, and end it."""
    order = {"limits": asdict(limits), "seconds": timeout.total_seconds(), "max_memory_bytes": max_memory_bytes}
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, json.dumps(order)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        cwd=_ROOT,
        text=True,
    )
    with process:
        yield Readers(process)
        assert process.stdin
        process.stdin.close()


def _serve(order: dict[str, Any]) -> None:
    # All that a file may need, so that no child pays for it.
    import pikepdf  # noqa: F401

    from pipeline.adapters.documents import archive, images, pdf_opening, pdf_text, pixels  # noqa: F401

    timeout = timedelta(seconds=order["seconds"])
    bounds = Bounds.until(timeout, max_memory_bytes=order["max_memory_bytes"])
    limits = DocumentLimits(**order["limits"])
    for line in sys.stdin:
        begun = time.monotonic()
        read_end, write_end = os.pipe()
        child = os.fork()
        if not child:
            os._exit(_be_child(Path(line.rstrip("\n")), limits, bounds, write_end))
        os.close(write_end)
        said = _said(read_end, begun + timeout.total_seconds())
        if said is None:
            os.kill(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
        code, detail = _judged(said, os.waitstatus_to_exitcode(status))
        outcome = Outcome(code=code, detail=detail, peak_bytes=used.ru_maxrss * 1024, seconds=time.monotonic() - begun)
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        sys.stdout.flush()


def _said(pipe: int, deadline: float) -> bytes | None:
    """Return all that a child says until it ends, or None where it does not end in time."""
    said = b""
    with os.fdopen(pipe, "rb", buffering=0) as stream:
        while select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = stream.read(65536)
            if not piece:
                return said
            said += piece
    return None


def _judged(said: bytes | None, exit_code: int) -> tuple[str, str]:
    if said is None:
        return "late", ""
    if exit_code:
        return "died", "no memory" if exit_code == _EXIT_NO_MEMORY else f"exit code {exit_code}"
    code, _, detail = said.decode().partition(" ")
    return code, detail


def _be_child(path: Path, limits: DocumentLimits, bounds: Bounds, pipe: int) -> int:
    bind(bounds)
    try:
        said = _read(path, limits)
    except PipelineError as error:
        said = f"{error.code} {error.message}"
    except MemoryError:
        return _EXIT_NO_MEMORY
    except BaseException as error:  # what is found here is what this is for
        said = f"{UNTYPED} {type(error).__name__}: {error}"
    os.write(pipe, said.encode(errors="replace")[:4000])
    return 0


def _read(path: Path, limits: DocumentLimits) -> str:
    from pipeline.adapters.documents.opener import FileOpener

    with FileOpener(limits).open(path) as document:
        facts = [document.facts(number) for number in range(1, document.page_count + 1)]
        readable = [page.number for page in facts if page.page_class is not PageClass.UNREADABLE]
        if not readable:
            return f"{facts[0].error_code} of all {len(facts)} pages"
        document.render(readable[0])
        document.text_layer(readable[0])
        return f"ok {len(readable)} of {len(facts)} pages"


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
