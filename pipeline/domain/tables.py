"""Tables: rows whose pieces stand below one another, with white between the columns.

What is not surely a table stays text: rows of one piece, ragged columns, two columns of prose.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, median

from pipeline.domain.placed_lines import Placed, Row, bottom, em, top
from pipeline.domain.recognition import Block, BlockKind, Cell, Line

MIN_ROWS = 3
MIN_ROWS_OF_TWO = 4
"""Two columns are sooner chance than three."""
MAX_COLUMNS = 40
MIN_ROWS_ACROSS = 4
MIN_COLUMNS_ACROSS = 3
MAX_CELL_ACROSS_EM = 5.0
"""Columns of a newspaper are broader."""
WHITE_EM = 0.5
"""Least breadth of the white between columns, in heights of a line's box."""
MAX_ACROSS = 0.15
"""Part of the rows in which a piece may run across the white: a heading over several columns; one of five always."""
MAX_GAP_EM = 2.5
MIN_FILL = 0.5
MIN_FILL_OF_TWO = 0.75
ALIGNED_EM = 0.6
MIN_ALIGNED = 0.6
MAX_CELL_EM = 18.0
"""Cells are broader on the mean in two columns of prose than in a table of two."""
CONTINUED_EM = 0.2
"""How much closer than usual a row without a first cell lies to the one above if it goes on with its cells."""

_COMMENT = ("//", "/*", ";", "#", "--")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripe:
    """A column of a table, from the leftmost to the rightmost of its cells."""

    left: float
    right: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCell:
    """Pieces of one row that stand in one cell."""

    first: int
    """Column, counted from 0."""
    last: int
    pieces: tuple[Placed, ...]


def tables(rows: Sequence[Row]) -> list[tuple[range, Block]]:
    """Return the tables among the rows of a column: which rows, and the block they make."""
    split = [pieces_of(row) for row in rows]
    return [found for run in _runs(split) for found in _tables_within(split, run)]


def tables_across(rows: Sequence[Row]) -> list[range]:
    """Return which rows of a whole page are tables beyond doubt, so that they are not taken for its columns."""
    split = [pieces_of(row) for row in rows]
    return [span for span, block in tables(rows) if _is_narrow(split[span.start : span.stop], block)]


def _is_narrow(rows: Sequence[Row], block: Block) -> bool:
    columns = {cell.column for cell in block.cells}
    pieces = [piece for row in rows for piece in row]
    return (
        len(columns) >= MIN_COLUMNS_ACROSS
        and len(rows) >= MIN_ROWS_ACROSS
        and fmean(piece.box.width for piece in pieces) <= MAX_CELL_ACROSS_EM * em(pieces)
    )


def pieces_of(row: Row) -> list[Placed]:
    """Return what wide gaps part in a row."""
    return [piece for item in row for piece in item.pieces or (item,)]


def _runs(rows: Sequence[Row]) -> Iterator[range]:
    """Yield stretches of rows that begin and end with one of several pieces, and have at most one other in between.

    A piece by itself below one that is not the first of its row goes on with that, and is none of the others.
    """
    run = range(0)
    going_on = 0
    for index, row in enumerate(rows):
        is_close = index == 0 or top(row) - bottom(rows[index - 1]) <= MAX_GAP_EM * em(row)
        if run and (index - going_on > 2 or not is_close):
            yield run
            run = range(0)
        if len(row) > 1:
            run, going_on = range(run.start if run else index, index + 1), index
        elif run and _goes_on(row, rows[run[-1]]):
            going_on = index
    if run:
        yield run


def _goes_on(row: Row, above: Row) -> bool:
    """Whether a row of one piece stands below a further piece of a row above."""
    [piece], near = row, ALIGNED_EM * em(row)
    return any(abs(piece.box.left - other.box.left) <= near for other in above[1:])


def _tables_within(rows: Sequence[Row], run: range) -> list[tuple[range, Block]]:
    """Return a run as one table, or what is one above and below the row or gap that most likely parts it."""
    if len(run) < MIN_ROWS:
        return []
    if found := _table(rows[run.start : run.stop]):
        above, count, block = found
        return [(range(run.start + above, run.start + above + count), block)]
    singles = [index for index in run if len(rows[index]) == 1]
    if not singles:
        return []
    cut = min(singles, key=lambda index: (abs(2 * index - run.start - run.stop), index))
    return _tables_within(rows, range(run.start, cut)) + _tables_within(rows, range(cut + 1, run.stop))


def _table(rows: Sequence[Row]) -> tuple[int, int, Block] | None:
    """Return how many rows stand above a table, how many it has, and the table; None if there is none."""
    stripes = _stripes(rows)
    if not 2 <= len(stripes) <= MAX_COLUMNS:
        return None
    fitting = [index for index, row in enumerate(rows) if _fits(list(_cells(row, stripes)))]
    if not fitting:
        return None
    rows_within = rows[fitting[0] : fitting[-1] + 1]
    if len(rows_within) < len(rows):
        found = _table(rows_within)
        return (found[0] + fitting[0], *found[1:]) if found else None
    grid = [list(_cells(row, stripes)) for row in rows]
    return (0, len(rows), _block(_continued(grid, rows))) if _is_table(grid, len(stripes)) else None


def _fits(row: Sequence[PlacedCell]) -> bool:
    """Whether a row may be the first or last of a table: text of the page around it runs across several columns."""
    return len(row) > 1 and any(cell.first == cell.last for cell in row)


def _is_table(grid: Sequence[Sequence[PlacedCell]], columns: int) -> bool:
    if len(grid) < (MIN_ROWS if columns > 2 else MIN_ROWS_OF_TWO):
        return False
    if columns == 2 and (_is_prose(grid) or _counts_rows(grid) or _is_code(grid)):
        return False
    return _is_filled(grid, columns) and _is_aligned(grid, columns)


def _stripes(rows: Sequence[Row]) -> list[Stripe]:
    """Return the columns: what lies between stretches of white that run down nearly all rows."""
    edges = sorted((edge, step) for row in rows for p in row for edge, step in ((p.box.left, 1), (p.box.right, -1)))
    covered = accumulate(step for _, step in edges)
    white = WHITE_EM * em([piece for row in rows for piece in row])
    allowed = max(int(MAX_ACROSS * len(rows)), len(rows) >= 5)
    stripes: list[Stripe] = []
    for (left, _), (right, _), pieces in zip(edges, edges[1:], covered, strict=False):
        if pieces <= allowed:
            continue
        if stripes and left - stripes[-1].right < white:
            stripes[-1] = Stripe(left=stripes[-1].left, right=right)
        else:
            stripes.append(Stripe(left=left, right=right))
    return stripes


def _cells(row: Row, stripes: Sequence[Stripe]) -> Iterator[PlacedCell]:
    """Yield a row's cells from the left; pieces that share a column share a cell."""
    open_cell: PlacedCell | None = None
    for piece in row:
        first, last = _columns_under(piece, stripes)
        if open_cell and first <= open_cell.last:
            open_cell = PlacedCell(
                first=open_cell.first, last=max(open_cell.last, last), pieces=(*open_cell.pieces, piece)
            )
            continue
        if open_cell:
            yield open_cell
        open_cell = PlacedCell(first=first, last=last, pieces=(piece,))
    if open_cell:
        yield open_cell


def _columns_under(piece: Placed, stripes: Sequence[Stripe]) -> tuple[int, int]:
    """Return the first and last column that a piece covers by a good part, or the one it is nearest to."""

    def overlap(stripe: Stripe) -> float:
        return min(stripe.right, piece.box.right) - max(stripe.left, piece.box.left)

    nearest = max(range(len(stripes)), key=lambda index: overlap(stripes[index]))
    least = 0.5 * piece.box.height
    covered = [
        i for i, stripe in enumerate(stripes) if overlap(stripe) > min(least, 0.5 * (stripe.right - stripe.left))
    ]
    return min([nearest, *covered]), max([nearest, *covered])


def _is_filled(grid: Sequence[Sequence[PlacedCell]], columns: int) -> bool:
    filled = sum(len(row) for row in grid) / (len(grid) * columns)
    return filled >= (MIN_FILL if columns > 2 else MIN_FILL_OF_TWO)


def _is_aligned(grid: Sequence[Sequence[PlacedCell]], columns: int) -> bool:
    """Whether the cells of each column have their left ends, right ends or middles below one another."""
    return all(_column_is_aligned([c for row in grid for c in row if c.first == c.last == i]) for i in range(columns))


def _column_is_aligned(cells: Sequence[PlacedCell]) -> bool:
    if len(cells) < 2:
        return False
    lefts = [cell.pieces[0].box.left for cell in cells]
    rights = [cell.pieces[-1].box.right for cell in cells]
    middles = [(left + right) / 2 for left, right in zip(lefts, rights, strict=True)]
    near = ALIGNED_EM * em([piece for cell in cells for piece in cell.pieces])
    return any(
        fmean(abs(place - median(places)) <= near for place in places) >= MIN_ALIGNED
        for places in (lefts, rights, middles)
    )


def _is_prose(grid: Sequence[Sequence[PlacedCell]]) -> bool:
    """Whether cells are as broad as lines of text."""
    pieces = [piece for row in grid for cell in row for piece in cell.pieces]
    return fmean(piece.box.width for piece in pieces) > MAX_CELL_EM * em(pieces)


def _counts_rows(grid: Sequence[Sequence[PlacedCell]]) -> bool:
    """Whether the first column numbers the rows, as beside program code or verse."""
    numbers = [row[0].pieces[0].line.text.strip(".)") for row in grid if row[0].last == 0]
    values = [int(number) for number in numbers if number.isdecimal()]
    return len(values) == len(numbers) and all(below - above == 1 for above, below in pairwise(values))


def _is_code(grid: Sequence[Sequence[PlacedCell]]) -> bool:
    """Whether the second column comments on the first, as in program code."""
    return fmean(row[-1].pieces[0].line.text.startswith(_COMMENT) for row in grid) > 0.5


def _continued(grid: Sequence[Sequence[PlacedCell]], rows: Sequence[Row]) -> list[list[PlacedCell]]:
    """Return the grid, rows that only go on with cells of the row above put to it: close, and without a first cell."""
    gaps = [top(below) - bottom(above) for above, below in pairwise(rows)]
    own = [gap for gap, row in zip(gaps, grid[1:], strict=True) if row[0].first == 0]
    usual = median(own) if own else 0.0
    merged = [list(grid[0])]
    for gap, row, placed in zip(gaps, grid[1:], rows[1:], strict=True):
        above = {(cell.first, cell.last) for cell in merged[-1]}
        is_part = 2 * len(row) <= len(merged[-1]) and all((cell.first, cell.last) in above for cell in row)
        goes_on = row[0].first > 0 and is_part
        if goes_on and gap < usual - CONTINUED_EM * em(placed):
            more = {(cell.first, cell.last): cell.pieces for cell in row}
            merged[-1] = [
                PlacedCell(first=c.first, last=c.last, pieces=(*c.pieces, *more.get((c.first, c.last), ())))
                for c in merged[-1]
            ]
        else:
            merged.append(list(row))
    return merged


def _block(grid: Sequence[Sequence[PlacedCell]]) -> Block:
    lines: list[Line] = []
    cells: list[Cell] = []
    for number, row in enumerate(grid):
        for cell in row:
            indexes = tuple(range(len(lines), len(lines) + len(cell.pieces)))
            lines += [piece.line for piece in cell.pieces]
            cells.append(Cell(row=number, column=cell.first, column_span=cell.last - cell.first + 1, lines=indexes))
    return Block(kind=BlockKind.TABLE, lines=tuple(lines), cells=tuple(cells))
