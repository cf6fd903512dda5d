"""Writes tables into Markdown: as GitHub's, or as HTML where a cell spans several columns or rows."""

from collections.abc import Iterator
from html import escape
from itertools import groupby

from pipeline.adapters.writers.markdown_escapes import escaped_within
from pipeline.domain.recognition import Block, Cell


def table(block: Block) -> str:
    """Return a block's cells as a table, the first row as its head, which Markdown asks for."""
    if any(cell.column_span > 1 or cell.row_span > 1 for cell in block.cells):
        return "\n".join(_html_rows(block))
    columns = 1 + max(cell.column for cell in block.cells)
    rows = [_row(block, list(cells), columns) for _, cells in groupby(block.cells, key=lambda cell: cell.row)]
    return "\n".join([rows[0], "|" + " --- |" * columns, *rows[1:]])


def _row(block: Block, cells: list[Cell], columns: int) -> str:
    texts = [""] * columns
    for cell in cells:
        texts[cell.column] = escaped_within(block.text_of(cell)).replace("|", "\\|")
    return "|" + "".join(f" {text} |" for text in texts)


def _html_rows(block: Block) -> Iterator[str]:
    yield "<table>"
    for _, cells in groupby(block.cells, key=lambda cell: cell.row):
        yield "<tr>" + "".join(_html_cells(block, list(cells))) + "</tr>"
    yield "</table>"


def _html_cells(block: Block, cells: list[Cell]) -> Iterator[str]:
    place = 0
    for cell in cells:
        yield "<td></td>" * (cell.column - place)
        spans = [(name, span) for name, span in (("rowspan", cell.row_span), ("colspan", cell.column_span)) if span > 1]
        attributes = "".join(f' {name}="{span}"' for name, span in spans)
        yield f"<td{attributes}>{escape(block.text_of(cell), quote=False)}</td>"
        place = cell.column + cell.column_span
