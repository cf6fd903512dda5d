"""Makes lines and blocks of text runs, in the order in which the file has them. Pure; pixels, y downwards."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pipeline.adapters.documents.text_quality import HYPHEN_MARKS
from pipeline.domain.recognition import Block, BlockKind, Line

_SAME_LINE_OVERLAP = 0.5
_JOINING_GAP = 1.0
"""Runs on one line that are closer than this, in line heights, belong together: a superscript and what follows it."""
_SPACE_GAP = 0.2
_PARAGRAPH_GAP = 0.5
"""By how much more than usual lines have to be apart to begin a new block, in line heights."""
_WIDEST_USUAL_GAP = 1.0
"""Double spacing."""
_SIZE_CHANGE = 1.3

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


def blocks_of(lines: Sequence[Run]) -> tuple[Block, ...]:
    """Return the lines in blocks, a new one wherever the text jumps, leaves a gap or changes its size."""
    if not lines:
        return ()
    usual_gap = _usual_gap(lines)
    groups = [[lines[0]]]
    for above, below in pairwise(lines):
        if _begins_block(above, below, usual_gap):
            groups.append([])
        groups[-1].append(below)
    return tuple(Block(kind=BlockKind.TEXT, lines=tuple(map(_line, group))) for group in groups)


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
    )


def _usual_gap(lines: Sequence[Run]) -> float:
    """Return the usual distance between lines that follow each other downwards, in line heights."""
    gaps = [
        (below.top - above.bottom) / above.height
        for above, below in pairwise(lines)
        if above.height > 0 and below.top > above.top and _overlap_sideways(above, below)
    ]
    return min(max(0.0, median(gaps)), _WIDEST_USUAL_GAP) if gaps else 0.0


def _begins_block(above: Run, below: Run, usual_gap: float) -> bool:
    height = min(above.height, below.height)
    if below.top < above.top - 0.5 * height or not _overlap_sideways(above, below):
        return True
    if max(above.size, below.size) > _SIZE_CHANGE * min(above.size, below.size):
        return True
    return below.top - above.bottom > (usual_gap + _PARAGRAPH_GAP) * height


def _overlap_sideways(one: Run, other: Run) -> bool:
    return min(one.right, other.right) > max(one.left, other.left)


def _line(run: Run) -> Line:
    left, top, right, bottom = (round(value, 1) for value in (run.left, run.top, run.right, run.bottom))
    return Line(text=run.text, polygon=((left, top), (right, top), (right, bottom), (left, bottom)))
