"""Writes `document.txt`: lines as they stand on the pages, pages apart by a form feed and nothing else."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from pipeline.adapters.writers.page_check import checked
from pipeline.domain.assembly import DocumentHeader
from pipeline.domain.recognition import Block, PageResult
from pipeline.domain.serialisation import normalised

PAGE_MARK = "\f"
CELL_MARK = " | "


def write_text(header: DocumentHeader, pages: Iterable[PageResult]) -> Iterator[bytes]:
    """Yield the document's text in UTF-8; split at the form feeds it has exactly one part for each page.

    A page without text is an empty part, any other ends with a line feed.

    Raises: PipelineError (`ledger_broken`), if the pages are not those of the header; what was yielded is void then.
    """
    for position, page in enumerate(checked(header, pages)):
        mark = PAGE_MARK if position else ""
        text = "\n\n".join(map(_text, normalised(page).blocks))
        yield f"{mark}{text}\n".encode() if text else mark.encode()


def _text(block: Block) -> str:
    """Return the lines, of a table the rows."""
    if not block.cells:
        return block.text
    rows = groupby(block.cells, key=lambda cell: cell.row)
    return "\n".join(CELL_MARK.join(block.text_of(cell) for cell in cells) for _, cells in rows)
