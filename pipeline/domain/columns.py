"""Columns: which parts of a page are read one after the other, and which side by side.

A gutter is looked for that text runs along on both sides. Lines across it (titles, footers, parts in one column) cut
the page into bands; within a band the left side is read before the right one, and each side is taken apart further.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from pipeline.domain.column_sides import MIN_ROWS, Side, stand_apart
from pipeline.domain.placed_lines import Placed, em, rows_of

GUTTER_EM = 0.5
"""Least breadth of a gutter, in heights of a line's box; boxes reach about a third of that beyond their letters."""
HEADING_GAP_EM = 0.3
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
    for has_columns, run in groupby(_with_headings(bands), key=lambda band: bool(band.left and band.right)):
        if has_columns:
            parts += [part for band in run for side in (band.left, band.right) for part in columns(side)]
        else:
            parts.append([item for band in run for item in (*band.across, *band.left, *band.right)])
    return parts


def _with_headings(bands: Sequence[Band]) -> list[Band]:
    """Return the bands, each heading below the columns moved to the text across the page that it stands above."""
    moved = list(bands)
    for index, (band, below) in enumerate(pairwise(bands)):
        if below.across and band.left and band.right:
            heading, rest = _heading_under(band)
            moved[index] = rest
            moved[index + 1] = replace(below, across=(*heading, *below.across))
    return moved


def _heading_under(band: Band) -> tuple[tuple[Placed, ...], Band]:
    """Return what stands on the left, below the right column's end and apart from what is above it; and the rest."""
    end = max(item.box.bottom for item in band.right)
    body = [item for item in band.left if item.box.middle < end]
    heading = tuple(item for item in band.left if item.box.middle >= end)
    if not (heading and body):
        return (), band
    gap = min(item.box.top for item in heading) - max(item.box.bottom for item in body)
    return (heading, replace(band, left=tuple(body))) if gap >= HEADING_GAP_EM * em(heading) else ((), band)


def _best_bands(placed: Sequence[Placed]) -> list[Band] | None:
    best: list[Band] | None = None
    most = 0.0
    for gutter, at_most in _gutters(placed):
        if at_most <= most:
            break
        bands = list(_bands(placed, gutter))
        rows = _rows_side_by_side(bands)
        if rows > most:
            best, most = bands, rows
    return best


def _gutters(placed: Sequence[Placed]) -> list[tuple[Gutter, int]]:
    """Return where a gutter may be, each with a bound on the rows along it; highest first, then fewest lines across."""
    if len(placed) < 2 * MIN_ROWS:
        return []
    breadth = GUTTER_EM * em(placed)
    lefts, rights = sorted(item.box.left for item in placed), sorted(item.box.right for item in placed)
    ranked = []
    for left in sorted({round(right, 1) for right in rights}):
        before, after = bisect_right(rights, left + 0.1), len(lefts) - bisect_left(lefts, left + breadth)
        if min(before, after) >= MIN_ROWS:
            ranked.append((-min(before, after), len(placed) - before - after, left))
    return [(Gutter(left=left, right=left + breadth), -bound) for bound, _, left in sorted(ranked)[:MAX_GUTTERS]]


def _bands(placed: Sequence[Placed], gutter: Gutter) -> Iterator[Band]:
    ordered = sorted(placed, key=lambda item: (item.box.middle, item.box.left))
    beside = [item for item in ordered if not gutter.is_crossed_by(item)]
    middles = [item.box.middle for item in beside]
    reach = em(placed)

    def cuts(item: Placed) -> bool:
        """Whether a line parts what is above it from what is below; a mark between lines to both sides does not."""
        if not gutter.is_crossed_by(item):
            return False
        middle = item.box.middle
        near = beside[bisect_left(middles, middle - reach) : bisect_right(middles, middle + reach)]
        level = [other for other in near if other.box.top < middle < other.box.bottom]
        return len({gutter.has_on_left(other) for other in level}) < 2

    for is_across, run in groupby(ordered, key=cuts):
        members = tuple(run)
        if is_across:
            yield Band(across=members)
        else:
            left = tuple(item for item in members if gutter.has_on_left(item))
            yield Band(left=left, right=tuple(item for item in members if not gutter.has_on_left(item)))


def _rows_side_by_side(bands: Sequence[Band]) -> int:
    """Return how many rows stand on both sides of a gutter, 0 if they are rows of one table or form."""
    both = [band for band in bands if band.left and band.right]
    left = Side([item for band in both for item in band.left])
    right = Side([item for band in both for item in band.right])
    if not stand_apart(left, right):
        return 0
    return sum(min(len(rows_of(band.left)), len(rows_of(band.right))) for band in both)
