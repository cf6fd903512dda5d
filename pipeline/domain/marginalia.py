"""Marginalia: short lines outside the edges that the text of a page keeps to."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from pipeline.domain.geometry import Box
from pipeline.domain.item_marks import mark_of
from pipeline.domain.placed_lines import Placed, bottom, em, rows_of, top

MIN_PROSE_EM = 10.0
"""Lines at least this long, in heights of their boxes, say where the edges are."""
MIN_PROSE_ROWS = 8
MAX_NOTE_EM = 8.0
OUTSIDE_EM = 0.2
STICKING_OUT = 0.08
"""Part of the long lines that may begin or end beyond an edge."""
MAX_NOTES = 0.4
"""Notes are fewer than this times the long lines; what stands beside every line numbers or belongs to it."""
MAX_RAGGED_EM = 2.0
LEVEL_EM = 1.5
NOTE_GAP_EM = 0.8


def marginalia(placed: Sequence[Placed]) -> tuple[list[list[Placed]], list[Placed]]:
    """Return the notes in the margins, from the top, each in its rows' order; and all other lines."""
    prose = [item for item in placed if item.box.width >= MIN_PROSE_EM * item.box.height]
    if len(rows_of(prose)) < MIN_PROSE_ROWS:
        return [], list(placed)
    left, right = _edges(prose)
    near = OUTSIDE_EM * em(prose)
    on_left = [item for item in placed if item.box.right <= left - near and _is_short(item)]
    on_right = [item for item in placed if item.box.left >= right + near and _is_short(item)]
    if not _are_notes(on_left, prose, lambda box: box.left - left) or any(map(_is_mark, on_left)):
        on_left = []
    if not _are_notes(on_right, prose, lambda box: right - box.right):
        on_right = []
    notes = [*on_left, *on_right]
    groups = [*_groups(on_left), *_groups(on_right)]
    return sorted(groups, key=lambda group: group[0].box.top), [item for item in placed if item not in notes]


def _edges(prose: Sequence[Placed]) -> tuple[float, float]:
    beyond = int(STICKING_OUT * len(prose))
    lefts, rights = sorted(item.box.left for item in prose), sorted(item.box.right for item in prose)
    return lefts[beyond], rights[-1 - beyond]


def _is_short(item: Placed) -> bool:
    return item.box.width <= MAX_NOTE_EM * item.box.height


def _is_mark(item: Placed) -> bool:
    """Whether a line is the mark of an item whose text the engine found apart from it."""
    return mark_of(f"{item.line.text} x") is not None


def _are_notes(side: Sequence[Placed], prose: Sequence[Placed], short_of_edge: Callable[[Box], float]) -> bool:
    """Whether lines are few, and most stand beside text that reaches the edge; others belong to rows that don't."""
    beside_text = 0
    for note in side:
        reach = LEVEL_EM * note.box.height
        beside = [short_of_edge(item.box) for item in prose if abs(item.box.middle - note.box.middle) <= reach]
        beside_text += bool(beside) and min(beside) <= MAX_RAGGED_EM * note.box.height
    return 0 < len(side) <= MAX_NOTES * len(prose) and 2 * beside_text > len(side)


def _groups(side: Sequence[Placed]) -> list[list[Placed]]:
    """Return the notes of one margin, lines close below one another together."""
    rows = rows_of(side)
    groups = [list(rows[0])] if rows else []
    for above, below in pairwise(rows):
        if top(below) - bottom(above) <= NOTE_GAP_EM * em(below):
            groups[-1] += below
        else:
            groups.append(list(below))
    return groups
