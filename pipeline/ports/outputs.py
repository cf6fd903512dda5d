"""The forms in which a finished document is written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from pipeline.domain.assembly import DocumentHeader
from pipeline.domain.recognition import PageResult


class WriteDocument(Protocol):
    """Writes a document in one format, streaming."""

    def __call__(self, header: DocumentHeader, pages: Iterable[PageResult]) -> Iterator[bytes]:
        """Yield the bytes, a page at a time. Raises: PipelineError (`ledger_broken`), if the pages are not those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One format in which a finished document is written."""

    file_name: str
    media_type: str
    write: WriteDocument
