"""Columns: which parts of a page are read one after the other, and which side by side.

A gutter is looked for that text runs along on both sides. Lines across it (titles, footers, parts in one column) cut
the page into bands; within a band the left side is read before the right one, and each side is taken apart further.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from pipeline.domain.geometry import box_around
from pipeline.domain.placed_lines import Placed, em, rows_of

GUTTER_EM = 0.5
"""Least breadth of a gutter, in heights of a line's box; boxes reach about a third of that beyond their letters."""
MIN_ROWS = 3
MIN_COLUMN_EM = 5.0
"""What is narrower holds numbers, labels or marginal notes and is read by rows."""
MIN_FILL = 0.6
"""Which part of a column's breadth its lines fill on the mean. Running text 0.85 to 1; cells of tables and forms, which
are read by rows, mostly below 0.5."""
MAX_GUTTERS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Gutter:
    """A stretch of a page from one x to another."""

    left: float
    right: float

    def is_crossed_by(self, item: Placed) -> bool:
        """Whether a line runs across."""
        return item.box.left < self.left and item.box.right > self.right

    def has_on_left(self, item: Placed) -> bool:
        """Whether a line lies to the left, by its middle."""
        return item.box.left + item.box.right < self.left + self.right


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """What lies between two lines that cross a gutter, or such lines themselves."""

    across: tuple[Placed, ...] = ()
    left: tuple[Placed, ...] = ()
    right: tuple[Placed, ...] = ()


def columns(placed: Sequence[Placed]) -> list[list[Placed]]:
    """Return the lines in parts of one column each, in reading order of the parts."""
    bands = _best_bands(placed)
    if bands is None:
        return [list(placed)]
    parts: list[list[Placed]] = []
    for band in bands:
        if band.across or not (band.left and band.right):
            parts.append([*band.across, *band.left, *band.right])
        else:
            parts += columns(band.left) + columns(band.right)
    return parts


def _best_bands(placed: Sequence[Placed]) -> list[Band] | None:
    best: tuple[float, list[Band]] | None = None
    for gutter in _gutters(placed):
        bands = list(_bands(placed, gutter))
        score = _score(bands)
        if score and (best is None or score > best[0]):
            best = score, bands
    return best[1] if best else None


def _gutters(placed: Sequence[Placed]) -> list[Gutter]:
    """Return places where a gutter may be, those with the most lines on both sides and the fewest across first."""
    if len(placed) < 2 * MIN_ROWS:
        return []
    breadth = GUTTER_EM * em(placed)
    lefts, rights = sorted(item.box.left for item in placed), sorted(item.box.right for item in placed)
    ranked = []
    for left in sorted({round(right, 1) for right in rights}):
        before, after = bisect_right(rights, left + 0.1), len(lefts) - bisect_left(lefts, left + breadth)
        across = len(placed) - before - after
        if min(before, after) >= MIN_ROWS:
            ranked.append((across - min(before, after), left))
    return [Gutter(left=left, right=left + breadth) for _, left in sorted(ranked)[:MAX_GUTTERS]]


def _bands(placed: Sequence[Placed], gutter: Gutter) -> Iterator[Band]:
    across = [item for item in placed if gutter.is_crossed_by(item)]
    beside = [item for item in placed if not gutter.is_crossed_by(item)]
    # What stands in a gutter with text to its left and right is a stray mark and cuts nothing apart.
    strays = [item for item in across if _is_between(item, beside, gutter)]
    stray_ids = {id(item) for item in strays}
    cutting = {id(item) for item in across} - stray_ids
    ordered = sorted(placed, key=lambda item: (item.box.middle, item.box.left))
    for is_across, run in groupby(ordered, key=lambda item: id(item) in cutting):
        members = tuple(run)
        if is_across:
            yield Band(across=members)
        else:
            left = tuple(item for item in members if gutter.has_on_left(item))
            yield Band(left=left, right=tuple(item for item in members if not gutter.has_on_left(item)))


def _is_between(item: Placed, others: Sequence[Placed], gutter: Gutter) -> bool:
    level = [o for o in others if o.box.top < item.box.middle < o.box.bottom]
    return any(gutter.has_on_left(o) for o in level) and any(not gutter.has_on_left(o) for o in level)


def _score(bands: Sequence[Band]) -> float:
    """Return how many rows run side by side, 0 if what does is no running text."""
    both = [band for band in bands if band.left and band.right]
    left, right = [item for band in both for item in band.left], [item for band in both for item in band.right]
    if not (left and right) or not (_is_running_text(left) and _is_running_text(right)):
        return 0
    across = sum(len(band.across) for band in bands)
    return sum(min(len(rows_of(band.left)), len(rows_of(band.right))) for band in both) - 0.01 * across


def _is_running_text(placed: Sequence[Placed]) -> bool:
    rows = rows_of(placed)
    extent = box_around(corner for item in placed for corner in item.box.corners).width
    widths = [sum(item.box.width for item in row) for row in rows]
    return len(rows) >= MIN_ROWS and median(widths) >= MIN_COLUMN_EM * em(placed) and fmean(widths) >= MIN_FILL * extent
