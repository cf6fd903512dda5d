"""Paragraphs: which rows of a column belong together, by gaps, sizes, indents, short last lines and marks of items."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from pipeline.domain.geometry import Box
from pipeline.domain.item_marks import mark_of
from pipeline.domain.joining import join_lines
from pipeline.domain.placed_lines import Row, bottom, box_of, em, text_of, top

GAP_EM = 0.4
"""How much wider than usual a gap has to be to end a paragraph."""
WIDEST_USUAL_EM = 1.0
"""Double spacing."""
HANGING = 1.3
"""Further lines of an item may stand this many times as far apart."""
SIZE_RATIO = 1.25
INDENT_EM = 0.5
MAX_INDENT_EM = 6.0
SHORT_EM = 3.0
"""How much earlier than its neighbours the last line of a paragraph ends, in a column whose lines are justified."""
SPREAD_EM = 3.0
"""Pieces further apart stand in places of their own, as in a form; the row is then no part of running text."""
JUSTIFIED_SHARE = 0.6
MIN_COLUMN_ROWS = 4
_ENDS_SENTENCE = re.compile(r"[.!?:。！？：”\"’')）»]$")
_ENDS_ENTRY = re.compile(r"(\.{3,}|…|·{3,}|(\s\.){3,}|_{3,})[\s.…·]*[\dⅠ-ↂivxlcIVXLC０-９]+\s*$")
"""Leaders and a page number, as in a table of contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How most rows of a column are set."""

    left: float
    right: float
    usual_gap: float
    is_justified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Rows that belong together, at least one."""

    rows: tuple[Row, ...]
    gap_above: float | None
    """Distance to the row above in the column; None at its top."""

    @property
    def text(self) -> str:
        """Return it as one piece."""
        return join_lines(item.line.text for row in self.rows for item in row)

    @property
    def box(self) -> Box:
        """Return the box around it."""
        return box_of(self.rows)

    @property
    def size(self) -> float:
        """Return the size of most of its letters."""
        return median(item.size for row in self.rows for item in row)

    @property
    def em(self) -> float:
        """Return the usual height of its lines' boxes."""
        return em([item for row in self.rows for item in row])

    @property
    def is_bold(self) -> bool:
        """Whether all of it is set in bold type."""
        return all(item.is_bold for row in self.rows for item in row)


def column_of(rows: Sequence[Row]) -> Column:
    """Return how most of the rows are set, of which there is at least one; a fifth of them may stick out."""
    lefts, rights = sorted(row[0].box.left for row in rows), sorted(row[-1].box.right for row in rows)
    gaps = sorted(top(below) - bottom(above) for above, below in pairwise(rows))
    right = rights[-1 - len(rights) // 5]
    height = em([item for row in rows for item in row])
    near = 0.7 * height
    return Column(
        left=lefts[len(lefts) // 5],
        right=right,
        usual_gap=min(gaps[len(gaps) // 2], WIDEST_USUAL_EM * height) if gaps else 0.0,
        is_justified=len(rows) >= MIN_COLUMN_ROWS
        and fmean(abs(edge - right) <= near for edge in rights) >= JUSTIFIED_SHARE,
    )


def paragraphs(rows: Sequence[Row], column: Column) -> list[Paragraph]:
    """Return rows of one column by paragraphs, items of lists and lines of forms."""
    found: list[list[Row]] = []
    gaps: list[float | None] = []
    for index, row in enumerate(rows):
        gap = top(row) - bottom(rows[index - 1]) if index else None
        below = rows[index + 1] if index + 1 < len(rows) else None
        if gap is None or _begins(row, found[-1], below, gap, column):
            found.append([])
            gaps.append(gap)
        found[-1].append(row)
    return [Paragraph(rows=tuple(group), gap_above=gap) for group, gap in zip(found, gaps, strict=True)]


def _begins(row: Row, paragraph: Sequence[Row], below: Row | None, gap: float, column: Column) -> bool:
    above = paragraph[-1]
    is_item = mark_of(text_of(paragraph[0])) is not None
    if is_spread(row) or is_spread(above) or _are_entries(row, above, column) or _begins_item(row, paragraph, column):
        return True
    hangs = is_item and _hangs(row, paragraph)
    if _is_other_type(row, above) or gap > _widest_gap(row, above, column, is_inside=hangs):
        return True
    if is_item and not _follows_short_line(row, above, column):
        return _hangs(above, paragraph) and not hangs
    return _follows_short_line(row, above, column) or _is_indented(row, above, below, column)


def _begins_item(row: Row, paragraph: Sequence[Row], column: Column) -> bool:
    """Whether a row begins with a mark where an item may begin; a number may also be part of a sentence."""
    mark, above = mark_of(text_of(row)), paragraph[-1]
    if mark is None or mark.is_bullet:
        return mark is not None
    first = mark_of(text_of(paragraph[0]))
    return (
        (first is not None and first.family == mark.family)
        or _ENDS_SENTENCE.search(text_of(above)) is not None
        or _is_short(above, column)
        or abs(row[0].box.left - above[0].box.left) > INDENT_EM * em(row)
    )


def _are_entries(row: Row, above: Row, column: Column) -> bool:
    """Whether a row or the one above is a whole entry of a table of contents."""
    is_last = _ENDS_ENTRY.search(text_of(row)) is not None
    return _ENDS_ENTRY.search(text_of(above)) is not None or (is_last and _is_short(above, column))


def is_spread(row: Row) -> bool:
    """Whether pieces of a row stand far apart."""
    return any(after.box.left - before.box.right > SPREAD_EM * em(row) for before, after in pairwise(row))


def _is_other_type(row: Row, above: Row) -> bool:
    low, high = sorted((_size(row), _size(above)))
    return high > SIZE_RATIO * low or all(item.is_bold for item in row) != all(item.is_bold for item in above)


def _widest_gap(row: Row, above: Row, column: Column, *, is_inside: bool) -> float:
    """Return the widest gap there may be in a paragraph."""
    return column.usual_gap + (HANGING if is_inside else 1) * GAP_EM * min(em(row), em(above))


def _hangs(row: Row, paragraph: Sequence[Row]) -> bool:
    """Whether a row stands where further lines of an item do: below its text, not below its mark."""
    indent = row[0].box.left - paragraph[0][0].box.left
    return INDENT_EM * em(row) < indent <= MAX_INDENT_EM * em(row)


def _follows_short_line(row: Row, above: Row, column: Column) -> bool:
    """Whether the row above ends a paragraph: the only short one in a justified column, and a sentence ends with it."""
    return (
        column.is_justified
        and _is_short(above, column)
        and bool(_ENDS_SENTENCE.search(text_of(above)))
        and not _is_centred(row, column)
    )


def _is_indented(row: Row, above: Row, below: Row | None, column: Column) -> bool:
    """Whether a row is indented as first lines are, and is not one of several that are centred."""
    indent = INDENT_EM * em(row)
    if (
        row[0].box.left - above[0].box.left > indent
        and (below is None or row[0].box.left - below[0].box.left > indent)
        and above[-1].box.right - row[-1].box.right < indent
    ):
        return True
    return (
        indent < row[0].box.left - column.left <= MAX_INDENT_EM * em(row)
        and column.right - above[-1].box.right > SHORT_EM * em(row)
        and column.is_justified
        and not _is_centred(row, column)
    )


def _is_short(row: Row, column: Column) -> bool:
    """Whether a row ends well before the right edge of its column."""
    return column.right - row[-1].box.right > SHORT_EM * em(row)


def _is_centred(row: Row, column: Column) -> bool:
    left, right = row[0].box.left - column.left, column.right - row[-1].box.right
    return left > em(row) and abs(left - right) < em(row)


def _size(row: Row) -> float:
    return median(item.size for item in row)
