"""Lists: which paragraphs are the items of one list, and which lie within others."""

from collections.abc import Sequence

from pipeline.domain.item_marks import Mark, mark_of
from pipeline.domain.paragraphs import Paragraph
from pipeline.domain.recognition import Block, BlockKind, Item, Line

SAME_DEPTH_EM = 0.7

Depths = tuple[tuple[float, Mark], ...]
"""Where the items of each depth begin, from the outermost, and the last mark there."""


def list_at(paragraphs: Sequence[Paragraph], start: int) -> tuple[Block, int] | None:
    """Return the list that begins with a paragraph, and the index of what follows it; None if none begins there.

    Bullets make a list of any length; other marks have to come twice, and numbers one after the other.
    """
    depths: Depths = ()
    taken: list[tuple[Paragraph, int]] = []
    has_bullet = False
    for paragraph in paragraphs[start:]:
        mark = mark_of(paragraph.text)
        followed = _with(depths, paragraph, mark) if mark else None
        if mark is None or followed is None:
            break
        depths = followed
        has_bullet = has_bullet or mark.is_bullet
        taken.append((paragraph, len(depths) - 1))
    if not taken or (len(taken) == 1 and not has_bullet):
        return None
    return _block(taken), start + len(taken)


def _with(depths: Depths, paragraph: Paragraph, mark: Mark) -> Depths | None:
    """Return the depths once a paragraph is taken in; None if it is no further item."""
    left, near = paragraph.box.left, SAME_DEPTH_EM * paragraph.em
    if not mark.can_make_list:
        return None
    outer = tuple(depth for depth in depths if depth[0] < left + near)
    if depths and not outer:
        return None
    if outer and outer[-1][0] > left - near:
        edge, last = outer[-1]
        return (*outer[:-1], (edge, mark)) if _follows(last, mark) else None
    begins = mark.value is None or mark.value == 1 or not depths
    return (*outer, (left, mark)) if begins else None


def _follows(before: Mark, after: Mark) -> bool:
    return before.family == after.family and (
        before.value is None or after.value is None or after.value == before.value + 1
    )


def _block(taken: Sequence[tuple[Paragraph, int]]) -> Block:
    lines: list[Line] = []
    items: list[Item] = []
    for paragraph, depth in taken:
        own = [item.line for row in paragraph.rows for item in row]
        items.append(Item(lines=tuple(range(len(lines), len(lines) + len(own))), depth=depth))
        lines += own
    return Block(kind=BlockKind.LIST, lines=tuple(lines), items=tuple(items))
