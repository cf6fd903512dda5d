"""Running titles: what comes back at the head or foot of pages close to each other, and numbers that count the pages.

One pass over a document of any length; what is known of a page are the pages up to `REACH` before and behind it.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby
from typing import TypeVar

from pipeline.domain.geometry import page_frame
from pipeline.domain.page_edges import MARGIN
from pipeline.domain.page_numbers import page_number
from pipeline.domain.placed_lines import Placed, Row, bottom, place, rows_of, text_of, top
from pipeline.domain.recognition import Block, BlockKind, Cell, Item, Line, PageResult
from pipeline.domain.text_angle import text_angle

REACH = 8
MAX_ROWS = 4
"""At each edge; what comes back beyond is a form or the same page again."""
WITNESSES = 2
"""Pages that have to show the same, where there are as many."""
SAME_PLACE = 0.03
"""Part of the page's height by which pages are shifted against each other in the scanner."""
SAME_SIZE = 1.25
ALIKE = 0.8
"""Share of characters that agree, so that a misread one does no harm."""
MIN_CHARACTERS = 3
MIDDLE = (0.3, 0.7)
MIDDLE_CHARACTERS = 400
SHINGLE = 6
SAME_TEXT = 0.5
"""Share of them that two pages have in common if they are the same form, or one page scanned twice."""
Part = TypeVar("Part", Item, Cell)
_UNSEEN = re.compile(r"[\W_]+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRow:
    """A row near the head or foot of a page."""

    pieces: tuple[Line, ...]
    key: str
    """Its text without what differs from page to page."""
    place: float
    """Of its middle, in parts of the page's height."""
    size: float

    @property
    def numbers(self) -> list[int]:
        """Return the numbers that its pieces are, if they look like page numbers."""
        return [number for piece in self.pieces if (number := page_number(piece.text)) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """The rows at both edges of a page, from the edge inwards, and some text of its middle."""

    number: int
    head: tuple[EdgeRow, ...] = ()
    foot: tuple[EdgeRow, ...] = ()
    middle: frozenset[str] = frozenset()
    """Its pieces of `SHINGLE` characters."""


def with_running_titles(pages: Iterable[PageResult]) -> Iterator[PageResult]:
    """Yield the pages of a document in their order, headers, footers and page numbers told from their text."""
    window: deque[tuple[PageResult, Edges]] = deque()
    done = 0
    for page in pages:
        window.append((page, edges_of(page)))
        if len(window) - done > REACH:
            yield _settled(window, done)
            done += 1
        if done > REACH:
            window.popleft()
            done -= 1
    for index in range(done, len(window)):
        yield _settled(window, index)


def edges_of(page: PageResult) -> Edges:
    """Return what stands at the edges of a page as its text runs."""
    lines = [line for block in page.blocks for line in block.lines]
    if not lines:
        return Edges(number=page.number)
    angle_deg = text_angle(lines)
    frame = page_frame(page.width_px, page.height_px, angle_deg)
    rows = rows_of([place(line, angle_deg) for line in lines])
    margin = MARGIN * frame.height
    head = [row for row in rows[:MAX_ROWS] if bottom(row) <= frame.top + margin]
    foot = [row for row in rows[: -MAX_ROWS - 1 : -1] if top(row) >= frame.bottom - margin]

    def share(row: Row) -> float:
        return ((top(row) + bottom(row)) / 2 - frame.top) / max(1.0, frame.height)

    middle = "".join(_key(text_of(row)) for row in rows if MIDDLE[0] < share(row) < MIDDLE[1])
    return Edges(
        number=page.number,
        head=tuple(_edge_row(row, share(row)) for row in head),
        foot=tuple(_edge_row(row, share(row)) for row in foot),
        middle=frozenset(middle[start : start + SHINGLE] for start in range(min(len(middle), MIDDLE_CHARACTERS))),
    )


def _edge_row(row: Sequence[Placed], place_on_page: float) -> EdgeRow:
    return EdgeRow(
        pieces=tuple(item.line for item in row),
        key=_key(text_of(row)),
        place=place_on_page,
        size=max(item.size for item in row),
    )


def _key(text: str) -> str:
    return _UNSEEN.sub("", _DIGITS.sub("0", text)).casefold()


def _settled(window: Sequence[tuple[PageResult, Edges]], index: int) -> PageResult:
    page, own = window[index]
    others = [
        edges
        for _, edges in list(window)[max(0, index - REACH) : index + REACH + 1]
        if edges is not own and edges.middle and not _is_same_text(edges.middle, own.middle)
    ]
    head = _running(own.head, [(edges.head, edges.number - own.number) for edges in others])
    foot = _running(own.foot, [(edges.foot, edges.number - own.number) for edges in others])
    return _with_edges(page, head, foot[::-1]) if head or foot else page


def _running(rows: Sequence[EdgeRow], others: Sequence[tuple[Sequence[EdgeRow], int]]) -> list[EdgeRow]:
    """Return the rows from the edge inwards up to the first that belongs to the page's own text.

    Args: others are the rows at the same edge of other pages, each with the distance to the page in pages.
    """
    needed = min(WITNESSES, len(others))
    found: list[EdgeRow] = []
    for row in rows:
        witnesses = sum(any(_comes_back(row, other, distance) for other in theirs) for theirs, distance in others)
        if not needed or witnesses < needed:
            break
        found.append(row)
    return found


def _comes_back(row: EdgeRow, other: EdgeRow, distance: int) -> bool:
    if abs(row.place - other.place) > SAME_PLACE:
        return False
    if any(number + distance in other.numbers for number in row.numbers):
        return True
    low, high = sorted((row.size, other.size))
    has_text = len(row.key.replace("0", "")) >= MIN_CHARACTERS
    return has_text and high <= SAME_SIZE * low and _are_alike(row.key, other.key)


def _is_same_text(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) > SAME_TEXT * min(len(one), len(other))


def _are_alike(one: str, other: str) -> bool:
    if one == other:
        return True
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE


def _with_edges(page: PageResult, head: Sequence[EdgeRow], foot: Sequence[EdgeRow]) -> PageResult:
    taken = frozenset(piece for row in (*head, *foot) for piece in row.pieces)
    kept = [left for block in page.blocks if (left := _without(block, taken))]
    blocks = (
        *(block for row in head for block in _edge_blocks(row, BlockKind.HEADER)),
        *kept,
        *(block for row in foot for block in _edge_blocks(row, BlockKind.FOOTER)),
    )
    return replace(page, blocks=blocks)


def _edge_blocks(row: EdgeRow, kind: BlockKind) -> Iterator[Block]:
    def kind_of(piece: Line) -> BlockKind:
        return BlockKind.PAGE_NUMBER if page_number(piece.text) is not None else kind

    for what, pieces in groupby(row.pieces, key=kind_of):
        yield Block(kind=what, lines=tuple(pieces))


def _without(block: Block, taken: frozenset[Line]) -> Block | None:
    """Return a block without some of its lines, None if none is left."""
    kept = [index for index, line in enumerate(block.lines) if line not in taken]
    if len(kept) == len(block.lines):
        return block
    if not kept:
        return None
    new = {old: index for index, old in enumerate(kept)}
    rows = sorted({cell.row for cell in block.cells if any(line in new for line in cell.lines)})
    return replace(
        block,
        lines=tuple(block.lines[index] for index in kept),
        items=tuple(_part_without(item, new) for item in block.items if any(line in new for line in item.lines)),
        cells=tuple(
            replace(_part_without(cell, new), row=rows.index(cell.row))
            for cell in block.cells
            if any(line in new for line in cell.lines)
        ),
    )


def _part_without(part: Part, new: dict[int, int]) -> Part:
    return replace(part, lines=tuple(new[line] for line in part.lines if line in new))
