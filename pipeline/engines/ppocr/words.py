"""Where the words of a line stand, from the steps at which its characters were read."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from pipeline.domain.writing import word_spans
from pipeline.engines.ppocr.runtime import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A word and the part of its line that it takes, as shares of its length."""

    text: str
    start: float
    end: float
    confidence: float


def pieces_of(characters: Sequence[str], places: Sequence[float], scores: Sequence[float]) -> list[Piece]:
    """Return the words of a line.

    CTC names a character about where its middle is, so a word reaches half a character beyond the middles of its first
    and last ones, but not into its neighbours.
    Args: places are the middles of the characters, as shares of the line's length, ascending.
    """
    text = "".join(characters)
    if len(text) != len(characters):  # a label of several characters: not in this alphabet
        return []
    half = _half_character(text, places)
    spans = word_spans(text)
    pieces = []
    for number, (first, last) in enumerate(spans):
        before = 0.0 if number == 0 else (places[spans[number - 1][1] - 1] + places[first]) / 2
        after = 1.0 if number == len(spans) - 1 else (places[last - 1] + places[spans[number + 1][0]]) / 2
        pieces.append(
            Piece(
                text=text[first:last],
                start=max(before, places[first] - half),
                end=min(after, places[last - 1] + half),
                confidence=float(np.mean(scores[first:last])),
            )
        )
    return pieces


def part_of(quad: FloatArray, start: float, end: float, *, runs_down: bool) -> FloatArray:
    """Return the part of a line's quad between two shares of its length, its first edge as the line's.

    Args: runs_down tells that the line is read along its second edge, as Chinese columns are.
    """
    top_left, top_right, bottom_right, bottom_left = quad
    if runs_down:
        left, right = bottom_left - top_left, bottom_right - top_right
        ends = ((top_left, left, start), (top_right, right, start), (top_right, right, end), (top_left, left, end))
    else:
        top, bottom = top_right - top_left, bottom_right - bottom_left
        ends = ((top_left, top, start), (top_left, top, end), (bottom_left, bottom, end), (bottom_left, bottom, start))
    return np.array([corner + share * edge for corner, edge, share in ends], np.float32)


def _half_character(text: str, places: Sequence[float]) -> float:
    """Return half of how far apart neighbouring characters usually are."""
    apart = [
        places[index + 1] - places[index]
        for index in range(len(text) - 1)
        if not text[index].isspace() and not text[index + 1].isspace()
    ]
    return median(apart) / 2 if apart else 0.5
