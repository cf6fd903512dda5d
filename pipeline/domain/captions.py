"""Captions, and the scattered words of the figure that one of them stands below or above."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from pipeline.domain.recognition import Block, BlockKind

MIN_LABELS = 3
MAX_LABEL_CHARACTERS = 40
MAX_LABEL_LINES = 3
_FIGURE = re.compile(r"(?i:fig(ure|\.)?|abb(ildung|\.)?|plate)\s*[\dIVX]|图\s*[\d一二三四五六七八九十]")
_CAPTION = re.compile(rf"{_FIGURE.pattern}|(?i:table|tab\.|tabelle|listing|example)\s*\d|表\s*[\d一二三四五六七八九十]")


def is_caption(text: str) -> bool:
    """Whether a text begins as captions of figures and tables do."""
    return _CAPTION.match(text) is not None


def with_figures(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks, labels next to a figure's caption put together as the text in that figure."""
    runs = [(is_label, list(run)) for is_label, run in groupby(blocks, key=_is_label)]
    for index, (is_label, run) in enumerate(runs):
        beside = [runs[near][1][end].text for near, end in ((index - 1, -1), (index + 1, 0)) if 0 <= near < len(runs)]
        if is_label and len(run) >= MIN_LABELS and any(map(_FIGURE.match, beside)):
            yield Block(kind=BlockKind.FIGURE, lines=tuple(line for block in run for line in block.lines))
        else:
            yield from run


def _is_label(block: Block) -> bool:
    return (
        block.kind in (BlockKind.TEXT, BlockKind.FORMULA)
        and len(block.text) <= MAX_LABEL_CHARACTERS
        and len(block.lines) <= MAX_LABEL_LINES
        and not is_caption(block.text)
    )
