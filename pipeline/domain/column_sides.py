"""What tells columns from tables: how the two sides of a gutter are filled, and whether their rows are level."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

from pipeline.domain.placed_lines import Placed, Row, em, rows_of

MIN_ROWS = 3
MIN_COLUMN_EM = 5.0
"""What is narrower holds numbers, labels or marginal notes and is read by rows."""
MIN_FILL = 0.6
"""Which part of a column's breadth its lines fill on the mean. Running text 0.85 to 1; cells of tables and forms, which
are read by rows, mostly below 0.5."""
MIN_PROSE_FILL = 0.75
MAX_PROSE_PIECES = 1.3
LEVEL_EM = 0.15
MAX_LEVEL = 0.6
"""Where more of the rows than that are level across a gutter, they may be rows of a table; a box of another line
spacing beside prose hits it by chance in one row of three."""
TABLE_PITCH_EM = 1.4
"""Lines of running text follow one another after 0.9 to 1.2 heights of their boxes."""
TABLE_LEVEL = 0.8
SOLID_FILL = 0.85


class Side:
    """What lies on one side of a gutter, measured. A stripe is what stands below one another, white to both sides."""

    def __init__(self, placed: Sequence[Placed]) -> None:
        self.rows = rows_of(placed)
        self.pieces = len(placed)
        stripes = [(rows_of(stripe), extent) for stripe, extent in _stripes(placed)]
        self._stripe_widths = [_width(row) for rows, _ in stripes for row in rows]
        self._shares = [_width(row) / max(1.0, extent) for rows, extent in stripes for row in rows]
        self.em = em(placed) if placed else 0.0

    @property
    def fill(self) -> float:
        """Return which part of their stripe's breadth the rows fill, on the mean."""
        return fmean(self._shares)

    @property
    def has_broad_stripes(self) -> bool:
        """Whether its stripes are too broad for numbers and labels."""
        return median(self._stripe_widths) >= MIN_COLUMN_EM * self.em

    @property
    def is_broad(self) -> bool:
        """Whether all of it together is."""
        return median(map(_width, self.rows)) >= MIN_COLUMN_EM * self.em

    @property
    def is_prose(self) -> bool:
        """Whether it is set solid, in lines of one piece."""
        return self.fill >= MIN_PROSE_FILL and self.pieces <= MAX_PROSE_PIECES * len(self.rows)

    @property
    def pitch(self) -> float:
        """Return the usual distance from one row to the next."""
        return median(_level(below) - _level(above) for above, below in pairwise(self.rows))


def _stripes(placed: Sequence[Placed]) -> list[tuple[list[Placed], float]]:
    """Return the stripes, each with its breadth."""
    stripes: list[list[Placed]] = []
    edges: list[float] = []
    for item in sorted(placed, key=lambda item: item.box.left):
        if not stripes or item.box.left > edges[-1]:
            stripes.append([])
            edges.append(item.box.right)
        stripes[-1].append(item)
        edges[-1] = max(edges[-1], item.box.right)
    return [(stripe, edge - stripe[0].box.left) for stripe, edge in zip(stripes, edges, strict=True)]


def stand_apart(left: Side, right: Side) -> bool:
    """Whether each side is read by itself; rows of a table or form go on across the gutter."""
    if min(len(left.rows), len(right.rows)) < MIN_ROWS:
        return False
    return _are_columns(left, right) or _is_beside_prose(left, right)


def _are_columns(left: Side, right: Side) -> bool:
    """Whether both sides are columns of running text, and not of a table: level rows, further apart than lines are."""
    fill = min(left.fill, right.fill)
    if fill < MIN_FILL or not (left.has_broad_stripes and right.has_broad_stripes):
        return False
    is_spaced = left.pitch >= TABLE_PITCH_EM * left.em
    return fill >= SOLID_FILL or not is_spaced or _level_share(left, right) < TABLE_LEVEL


def _is_beside_prose(left: Side, right: Side) -> bool:
    """Whether one side is plain prose and the other something of its own: its lines are not level with the prose."""
    return (
        (left.is_prose or right.is_prose)
        and left.is_broad
        and right.is_broad
        and _level_share(left, right) <= MAX_LEVEL
    )


def _level_share(left: Side, right: Side) -> float:
    """Return which part of the shorter side's rows is level with one on the other side."""
    fewer, more = sorted((left.rows, right.rows), key=len)
    levels = sorted(map(_level, more))
    near = LEVEL_EM * right.em
    return fmean(bisect_left(levels, _level(row) - near) < bisect_right(levels, _level(row) + near) for row in fewer)


def _width(row: Row) -> float:
    return sum(item.box.width for item in row)


def _level(row: Row) -> float:
    return fmean(item.box.middle for item in row)
