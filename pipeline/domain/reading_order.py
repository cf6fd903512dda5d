"""Reading order: from the lines that an engine found, in any order, to blocks as a person would read them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pipeline.domain.columns import columns
from pipeline.domain.geometry import box_around, turn
from pipeline.domain.placed_lines import Placed, em, joined, place, rows_of
from pipeline.domain.recognition import Block, BlockKind, Line
from pipeline.domain.text_angle import is_vertical, text_angle

MARGIN = 0.12
"""Part of the page's height, at its head and foot, where a single row set apart is a header or a footer."""
APART_EM = 0.8
"""How far apart that row is, in heights of a line's box; lines of running text lie -0.2 to 0.4 apart."""
PARAGRAPH_GAP_EM = 0.6
"""How much wider than usual a gap has to be to end a paragraph."""
INDENT_EM = 0.8
HEADING_RATIO = 1.35


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


def _paragraphs(rows: Sequence[Sequence[Placed]]) -> Iterator[list[Sequence[Placed]]]:
    """Yield rows of one column by paragraphs."""
    gaps = sorted(_top(below) - _bottom(above) for above, below in pairwise(rows))
    usual = gaps[len(gaps) // 2] if gaps else 0.0
    margin = min((row[0].box.left for row in rows), default=0.0)
    paragraph: list[Sequence[Placed]] = []
    for row in rows:
        if paragraph and _begins_paragraph(row, paragraph[-1], usual, margin):
            yield paragraph
            paragraph = []
        paragraph.append(row)
    if paragraph:
        yield paragraph


def _begins_paragraph(row: Sequence[Placed], above: Sequence[Placed], usual_gap: float, margin: float) -> bool:
    height, height_above = em(row), em(above)
    if _top(row) - _bottom(above) > usual_gap + PARAGRAPH_GAP_EM * min(height, height_above):
        return True
    if max(height, height_above) > HEADING_RATIO * min(height, height_above):
        return True
    indent, indent_above = row[0].box.left - margin, above[0].box.left - margin
    return indent > INDENT_EM * height and indent_above < INDENT_EM * height / 2


def _top(row: Sequence[Placed]) -> float:
    return min(item.box.top for item in row)


def _bottom(row: Sequence[Placed]) -> float:
    return max(item.box.bottom for item in row)
