"""Tables in HTML, which models write where Markdown has no words for merged cells."""

from dataclasses import dataclass
from html.parser import HTMLParser

_MOST_SPANNED = 100
"""Of rows and columns; HTML allows a thousand, of which a page has not the tenth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlCell:
    """A cell at its place in the grid; rows and columns count from 0."""

    row: int
    column: int
    text: str
    row_span: int = 1
    column_span: int = 1


def cells_of(html: str) -> list[HtmlCell]:
    """Return the cells of a table, each at the first free place of its row; one that breaks off ends where it does."""
    reader = _TableReader()
    reader.feed(html)
    reader.close()
    reader.end_cell()
    return reader.cells


def without_tags(html: str) -> str:
    """Return the text of a piece of HTML."""
    reader = _TextReader()
    reader.feed(html)
    reader.close()
    return "".join(reader.texts)


class _TextReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - theirs
        if tag in ("br", "p", "div", "tr", "li"):
            self.texts.append("\n")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class _TableReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.cells: list[HtmlCell] = []
        self._row = -1
        self._taken: set[tuple[int, int]] = set()
        self._open: tuple[int, int, int, int] | None = None
        self._texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.end_cell()
            self._row += 1
        elif tag in ("td", "th"):
            self.end_cell()
            spans = dict(attrs)
            self._begin(_span(spans.get("rowspan")), _span(spans.get("colspan")))
        elif tag == "br":
            self._texts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self.end_cell()

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    def _begin(self, rows: int, columns: int) -> None:
        row = max(0, self._row)
        column = 0
        while (row, column) in self._taken:
            column += 1
        self._taken |= {(row + down, column + across) for down in range(rows) for across in range(columns)}
        self._open = row, column, rows, columns
        self._texts = []

    def end_cell(self) -> None:
        """Keep the cell that is open, if one is."""
        if self._open:
            row, column, rows, columns = self._open
            text = "".join(self._texts).strip()
            self.cells.append(HtmlCell(row=row, column=column, text=text, row_span=rows, column_span=columns))
        self._open, self._texts = None, []


def _span(value: str | None) -> int:
    return min(_MOST_SPANNED, max(1, int(value))) if value and value.isascii() and value.isdigit() else 1
