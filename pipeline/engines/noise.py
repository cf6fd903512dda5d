"""Text that is not believed: what engines see in stains and paper on pages that hold nothing."""

from collections.abc import Sequence
from statistics import fmean

from pipeline.domain.recognition import Flag, Line

MAX_CHARACTERS = 10
MIN_CONFIDENCE = 0.8
"""A page number or a stamp by itself is read at 0.9 and more; shapes in stains and show-through mostly below 0.75."""


def believed(lines: Sequence[Line]) -> tuple[tuple[Line, ...], tuple[Flag, ...]]:
    """Return a page's lines, or none and a flag if all it holds is a few characters that the engine doubts itself."""
    text = "".join(line.text for line in lines)
    scores = [line.confidence for line in lines if line.confidence is not None]
    if not text or len(text) > MAX_CHARACTERS or not scores or fmean(scores) >= MIN_CONFIDENCE:
        return tuple(lines), ()
    return (), (Flag(name="doubtful_text_dropped", score=1 - fmean(scores)),)
