"""Progress of a batch by page: a bar on a terminal, plain lines elsewhere; always on standard error."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn, Self

import click
from tqdm import tqdm

from pipeline.ports.submissions import JobStatus

_LINE_EVERY_S = 5.0


class Progress:
    """Counts the pages of documents that are known so far."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._bar: tqdm[NoReturn] = tqdm(
            total=0, unit="page", file=sys.stderr, disable=not self._on_terminal, dynamic_ncols=True
        )
        self._pages_ended = 0
        self._documents_ended = 0
        self._documents = 0
        self._printed = time.monotonic()
        self._said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def documents(self, count: int) -> None:
        """Say how many documents there will be."""
        self._documents = count

    def update(self, statuses: Sequence[JobStatus]) -> None:
        """Show the open documents as they are now."""
        done = self._pages_ended + sum(status.pages_done for status in statuses)
        total = self._pages_ended + sum(status.page_count or 0 for status in statuses)
        if self._on_terminal:
            self._bar.total = max(total, done)
            self._bar.set_description(f"{self._documents_ended}/{self._documents} documents", refresh=False)
            # Never backwards: a page that is read again was counted once.
            self._bar.update(max(0, done - self._bar.n))
            self._bar.refresh()
        elif time.monotonic() - self._printed > _LINE_EVERY_S:
            self._printed = time.monotonic()
            self._say(f"{self._documents_ended}/{self._documents} documents, {done}/{total} pages")

    def ended(self, status: JobStatus) -> None:
        """Note that a document has ended."""
        self._documents_ended += 1
        self._pages_ended += status.pages_done

    def _say(self, line: str) -> None:
        if line != self._said:
            click.echo(line, err=True)
            self._said = line
