"""Reading order: from the lines that an engine found, in any order, to blocks as a person would read them."""

from collections.abc import Iterator, Sequence

from pipeline.domain.blocks import PlacedBlock, blocks_of, placed_block
from pipeline.domain.body_type import body_type
from pipeline.domain.captions import with_figures
from pipeline.domain.columns import columns
from pipeline.domain.geometry import Box, page_frame
from pipeline.domain.marginalia import marginalia
from pipeline.domain.page_edges import MARGIN, edge_blocks
from pipeline.domain.placed_lines import Placed, Row, bottom, em, joined, place, rows_of, top
from pipeline.domain.recognition import Block, BlockKind, Line
from pipeline.domain.tables import tables_across
from pipeline.domain.text_angle import is_across, is_vertical, text_angle

APART_EM = 0.8
"""How far a row at the head or foot is set apart, in heights of a line's box; lines of text lie -0.2 to 0.4 apart."""


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
    if not is_vertical(lines):
        return _upright(lines, page_frame(width, height, angle_deg), angle_deg)
    above, columns_of_text, below = _around_vertical(lines, angle_deg)
    # Seen from the side, columns from right to left are lines from top to bottom.
    return (
        *order(above, width, height),
        *_upright(columns_of_text, page_frame(width, height, angle_deg + 90), angle_deg + 90),
        *order(below, width, height),
    )


def _around_vertical(lines: Sequence[Line], angle_deg: float) -> tuple[list[Line], list[Line], list[Line]]:
    """Return the lines that run across above all vertical columns, the columns, and those that do below."""
    upright = [place(line, angle_deg) for line in lines]
    text = [item for item in upright if not is_across(item.line)]
    first, last = min(item.box.top for item in text), max(item.box.bottom for item in text)
    above = [item.line for item in upright if is_across(item.line) and item.box.bottom <= first]
    below = [item.line for item in upright if is_across(item.line) and item.box.top >= last]
    return above, [item.line for item in upright if item.line not in above and item.line not in below], below


def _upright(lines: Sequence[Line], page: Box, angle_deg: float) -> tuple[Block, ...]:
    placed = sorted((place(line, angle_deg) for line in lines), key=_position)
    body = body_type(placed)
    head, text, foot = _apart(placed, page)
    notes, text = marginalia(text)
    read = [found for rows in _parts(text) for found in blocks_of(rows, body, page)]
    ordered = [
        *edge_blocks(head, BlockKind.HEADER, body, page),
        *_with_notes(read, notes),
        *edge_blocks(foot, BlockKind.FOOTER, body, page),
    ]
    return tuple(with_figures([found.block for found in ordered]))


def _position(item: Placed) -> tuple[float, float, float, float, str]:
    return item.box.top, item.box.left, item.box.bottom, item.box.right, item.line.text


def _apart(placed: list[Placed], page: Box) -> tuple[list[Placed], list[Placed], list[Placed]]:
    """Return a row that stands alone at the head of the page, the body, and one that does at its foot."""
    rows = rows_of(placed)
    gap, margin = APART_EM * em(placed), MARGIN * page.height
    head: list[Placed] = []
    foot: list[Placed] = []
    if len(rows) > 1 and bottom(rows[0]) <= page.top + margin and min(map(top, rows[1:])) - bottom(rows[0]) >= gap:
        head = rows.pop(0)
    if len(rows) > 1 and top(rows[-1]) >= page.bottom - margin and top(rows[-1]) - max(map(bottom, rows[:-1])) >= gap:
        foot = rows.pop()
    return head, [item for row in rows for item in row], foot


def _parts(text: Sequence[Placed]) -> Iterator[list[Row]]:
    """Yield the rows of what is read one after the other: columns, and tables across the page between them."""
    rows = [joined(row) for row in rows_of(text)] if text else []
    done = 0
    for table in tables_across(rows):
        yield from _columns(rows[done : table.start])
        yield list(rows[table.start : table.stop])
        done = table.stop
    yield from _columns(rows[done:])


def _columns(rows: Sequence[Row]) -> Iterator[list[Row]]:
    lines = [piece for row in rows for item in row for piece in item.pieces or (item,)]
    for part in columns(lines) if lines else ():
        yield [joined(row) for row in rows_of(part)]


def _with_notes(read: Sequence[PlacedBlock], notes: Sequence[Sequence[Placed]]) -> list[PlacedBlock]:
    """Return the blocks with each note in the margin before the block that it stands beside."""
    found = list(read)
    for note in notes:
        marginal = placed_block(BlockKind.MARGINALIA, rows_of(note))
        beside = [
            block
            for block in found
            if block.box.bottom > marginal.box.top and block.block.kind is not BlockKind.MARGINALIA
        ]
        nearest = min(beside, key=lambda block: _distance(block.box, marginal.box), default=None)
        found.insert(len(found) if nearest is None else found.index(nearest), marginal)
    return found


def _distance(text: Box, note: Box) -> tuple[float, float]:
    """Return how far a note is from a block downwards, then sideways."""
    return max(0.0, text.top - note.middle), max(text.left - note.right, note.left - text.right)
