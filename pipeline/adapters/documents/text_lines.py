"""Makes lines of text runs, and parts of lines, in the order in which the file has them. Pure; pixels, y downwards."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.domain.blocks import PlacedBlock
from pipeline.domain.blocks import blocks_of as placed_blocks
from pipeline.domain.body_type import body_type
from pipeline.domain.captions import with_figures
from pipeline.domain.geometry import Box
from pipeline.domain.page_edges import MARGIN, edge_blocks
from pipeline.domain.placed_lines import Placed, Row, bottom, rows_of, top
from pipeline.domain.recognition import Block, BlockKind, Line
from pipeline.domain.tables import pieces_of
from pipeline.domain.text_quality import HYPHEN_MARKS

_SAME_LINE_OVERLAP = 0.5
_JOINING_GAP = 1.0
"""Runs on one line that are closer than this, in line heights, belong together: a superscript and what follows it."""
_SPACE_GAP = 0.2
_HEAD_RISE = 1.6
"""How far the next cell may begin above the last one within a table's head, in line heights."""

_ENDING_HYPHEN = re.compile(f"[{HYPHEN_MARKS}\u00ad]\\s*$")
_DROPPED = re.compile(f"[{HYPHEN_MARKS}\u00ad\u200b\u2060\ufeff\u2028\u2029\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BULLET = re.compile("(?<!\\S)[\uf000-\uf0ff](?!\\S)")
_IDEOGRAPHIC = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_RADICALS = re.compile("[\u2e80-\u2fdf]")
"""Some fonts map ideographs to the look-alikes that dictionaries list as radicals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A piece of text on one line."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    size: float
    """Height of most of its characters; a superscript makes a run higher, not larger."""
    is_bold: bool = False
    pieces: tuple["Run", ...] = ()
    """What wide gaps part in it, if that is more than one: cells, where it is a row of a table."""

    @property
    def height(self) -> float:
        """Return the height in pixels."""
        return self.bottom - self.top


def clean(text: str) -> str:
    """Return the text as people expect it: NFC, a hyphen where the line divides a word, no invisible characters."""
    text = _ENDING_HYPHEN.sub("-", text)
    text = _DROPPED.sub("", text)
    text = _BULLET.sub("•", text)
    text = _RADICALS.sub(lambda radical: unicodedata.normalize("NFKC", radical[0]), text)
    return unicodedata.normalize("NFC", " ".join(text.split()))


def is_ideographic(character: str) -> bool:
    """Whether a character belongs to a script that is written without spaces between words."""
    return _IDEOGRAPHIC.match(character) is not None


def joined(runs: Iterable[Run]) -> list[Run]:
    """Return the runs with neighbours on one line made one: readers break a line at every superscript."""
    lines: list[Run] = []
    for run in runs:
        if lines and _continues(lines[-1], run):
            lines[-1] = _merged(lines[-1], run)
        else:
            lines.append(run)
    return lines


def blocks_of(lines: Sequence[Run], width: float, height: float) -> tuple[Block, ...]:
    """Return the lines in blocks, in the order given but for the cells of tables, which follow by rows.

    Args: width and height are the page's, in pixels.
    """
    if not lines:
        return ()
    page = Box(left=0.0, top=0.0, right=width, bottom=height)
    body = body_type([_placed(line) for line in lines])
    parts = [_rows(part) for part in _parts(lines)]
    read: list[PlacedBlock] = []
    for part in parts:
        kind = _edge(part, parts, page)
        if kind and len(part) == 1:
            read += edge_blocks(pieces_of(part[0]), kind, body, page)
        else:
            read += placed_blocks(part, body, page)
    return tuple(with_figures([found.block for found in read]))


def _continues(before: Run, after: Run) -> bool:
    height = min(before.height, after.height)
    overlap = min(before.bottom, after.bottom) - max(before.top, after.top)
    gap = after.left - before.right
    tallest = max(before.height, after.height)
    return height > 0 and overlap >= _SAME_LINE_OVERLAP * height and -0.5 * tallest <= gap <= _JOINING_GAP * tallest


def _merged(before: Run, after: Run) -> Run:
    is_apart = after.left - before.right > _SPACE_GAP * max(before.height, after.height)
    return Run(
        text=before.text + (" " if is_apart else "") + after.text,
        left=min(before.left, after.left),
        top=min(before.top, after.top),
        right=max(before.right, after.right),
        bottom=max(before.bottom, after.bottom),
        size=max(before, after, key=lambda run: len(run.text)).size,
        is_bold=before.is_bold and after.is_bold,
        pieces=_merged_pieces(before, after),
    )


def _merged_pieces(before: Run, after: Run) -> tuple[Run, ...]:
    if not (before.pieces or after.pieces):
        return ()
    *first, last = before.pieces or (before,)
    following, *rest = after.pieces or (after,)
    return (*first, _merged(last, following), *rest)


def _parts(lines: Sequence[Run]) -> Iterator[list[Run]]:
    """Yield stretches that run down the page; one that goes up, or down in another column, begins a new one."""
    part = [lines[0]]
    for above, below in pairwise(lines):
        height = min(above.height, below.height)
        # Cells of a table's head are of different heights and stand to the right of one another.
        rise = _HEAD_RISE if below.left >= above.right else 0.5
        goes_up = below.top < above.top - rise * height
        goes_over = below.left > above.right and below.top > above.bottom
        if goes_up or goes_over:
            yield part
            part = []
        part.append(below)
    yield part


def _rows(part: Sequence[Run]) -> list[list[Placed]]:
    """Return lines by rows, as they follow each other, or by their places where some go up."""
    if any(below.top < above.top - 0.5 * min(above.height, below.height) for above, below in pairwise(part)):
        return rows_of([_placed(run) for run in part])
    rows = [[part[0]]]
    for before, run in pairwise(part):
        if _overlap_upwards(before, run) and run.left >= before.right:
            rows[-1].append(run)
        else:
            rows.append([run])
    return [[_placed(run) for run in row] for row in rows]


def _edge(part: Sequence[Row], parts: Sequence[Sequence[Row]], page: Box) -> BlockKind | None:
    """Return what a part is called that is the first thing at the head of a page or the last at its foot."""
    others = [row for other in parts if other is not part for row in other]
    first, last = top(part[0]), bottom(part[-1])
    if bottom(part[-1]) <= MARGIN * page.height and all(top(row) >= last for row in others):
        return BlockKind.HEADER
    if first >= (1 - MARGIN) * page.height and all(bottom(row) <= first for row in others):
        return BlockKind.FOOTER
    return None


def _overlap_upwards(one: Run, other: Run) -> bool:
    overlap = min(one.bottom, other.bottom) - max(one.top, other.top)
    return overlap >= _SAME_LINE_OVERLAP * min(one.height, other.height)


def _placed(run: Run) -> Placed:
    box = Box(left=round(run.left, 1), top=round(run.top, 1), right=round(run.right, 1), bottom=round(run.bottom, 1))
    return Placed(
        line=Line(text=run.text, polygon=box.corners),
        box=box,
        angle_deg=0.0,
        size=run.size,
        is_bold=run.is_bold,
        pieces=tuple(map(_placed, run.pieces)),
    )
