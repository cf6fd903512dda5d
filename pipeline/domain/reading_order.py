"""Reading order: from the lines that an engine found, in any order, to blocks as a person would read them."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from pipeline.domain.columns import columns
from pipeline.domain.geometry import box_around, turn
from pipeline.domain.placed_lines import Placed, Row, em, joined, place, rows_of
from pipeline.domain.recognition import Block, BlockKind, Line
from pipeline.domain.text_angle import is_vertical, text_angle

MARGIN = 0.15
"""Part of the page's height, at its head and foot, where a single row set apart is a header or a footer."""
APART_EM = 0.8
"""How far apart that row is, in heights of a line's box; lines of running text lie -0.2 to 0.4 apart."""
PARAGRAPH_GAP_EM = 0.4
"""How much wider than usual a gap has to be to end a paragraph."""
INDENT_EM = 0.5
HEADING_RATIO = 1.35
ITEM = re.compile(r"[•·●○▪■◆◦*\-–—]\s|\(?(\d{1,3}|[a-z])[.)]\s|（?[一二三四五六七八九十]{1,3}[、）]")
"""How an item of a list begins."""


def order(lines: Sequence[Line], width: float, height: float) -> tuple[Block, ...]:
    """Return the lines in blocks, in reading order; words that belong to one line are joined to it.

    Slanted, sideways and upside-down pages are judged upright; polygons stay where they are on the page. Columns are
    read one after the other, tables and forms by rows, Chinese columns from right to left. The order of the input
    makes no difference.
    Args: width and height are the page's, in the unit of the polygons.
    """
    if not lines:
        return ()
    angle_deg = text_angle(lines)
    if is_vertical(lines):
        # Seen from the side, columns from right to left are lines from top to bottom.
        angle_deg += 90
    page = box_around(turn([(0, 0), (width, 0), (width, height), (0, height)], -angle_deg))
    placed = sorted((place(line, angle_deg) for line in lines), key=_position)
    head, body, foot = _apart(placed, top=page.top + MARGIN * page.height, bottom=page.bottom - MARGIN * page.height)
    parts = [part for part in (head, *columns(body), foot) if part]
    return tuple(
        Block(kind=BlockKind.TEXT, lines=tuple(item.line for row in paragraph for item in row))
        for part in parts
        for paragraph in _paragraphs([joined(row) for row in rows_of(part)])
    )


def _position(item: Placed) -> tuple[float, float, float, float, str]:
    return item.box.top, item.box.left, item.box.bottom, item.box.right, item.line.text


def _apart(placed: list[Placed], *, top: float, bottom: float) -> tuple[list[Placed], list[Placed], list[Placed]]:
    """Return a row that stands alone at the head of the page, the body, and one that does at its foot."""
    rows = rows_of(placed)
    gap = APART_EM * em(placed)
    head: list[Placed] = []
    foot: list[Placed] = []
    if len(rows) > 1 and _bottom(rows[0]) <= top and min(map(_top, rows[1:])) - _bottom(rows[0]) >= gap:
        head = rows.pop(0)
    if len(rows) > 1 and _top(rows[-1]) >= bottom and _top(rows[-1]) - max(map(_bottom, rows[:-1])) >= gap:
        foot = rows.pop()
    return head, [item for row in rows for item in row], foot


def _paragraphs(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield rows of one column by paragraphs and items of lists."""
    gaps = sorted(_top(below) - _bottom(above) for above, below in pairwise(rows))
    usual_gap = gaps[len(gaps) // 2] if gaps else 0.0
    paragraph: list[Row] = []
    for row, below in zip_longest(rows, rows[1:]):
        if paragraph and (_is_apart(row, paragraph[-1], usual_gap) or _begins(row, paragraph, below)):
            yield paragraph
            paragraph = []
        paragraph.append(row)
    if paragraph:
        yield paragraph


def _is_apart(row: Row, above: Row, usual_gap: float) -> bool:
    """Whether a row stands further below than usual, or is of another size."""
    low, high = sorted((em(row), em(above)))
    return high > HEADING_RATIO * low or _top(row) - _bottom(above) > usual_gap + PARAGRAPH_GAP_EM * low


def _begins(row: Row, paragraph: Sequence[Row], below: Row | None) -> bool:
    """Whether a row is an item of a list, or indented as first lines are: the next row is not, and it isn't centred."""
    if ITEM.match(row[0].line.text):
        return True
    above, indent = paragraph[-1], INDENT_EM * em(row)
    return (
        row[0].box.left - above[0].box.left > indent
        and (below is None or row[0].box.left - below[0].box.left > indent)
        and above[-1].box.right - row[-1].box.right < indent
        and not ITEM.match(paragraph[0][0].line.text)
    )


def _top(row: Row) -> float:
    return min(item.box.top for item in row)


def _bottom(row: Row) -> float:
    return max(item.box.bottom for item in row)
