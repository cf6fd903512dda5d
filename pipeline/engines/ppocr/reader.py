"""What a line of text says: PP-OCR's recogniser and its CTC decoding."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from pipeline.engines.ppocr.asking import Asking, Question, normalised
from pipeline.engines.ppocr.runtime import BLANK, Best, FloatArray, Net
from pipeline.engines.ppocr.words import Piece, pieces_of
from pipeline.ports.documents import Pixels

HEIGHT = 48
WIDTH_SHARE = 0.8
"""Lines are read this much narrower than they are. The time of a line goes with its width alone.

Measured on 30 pages with known text, mean share of wrong characters: 0.90 % at 1.0, 0.92 % at 0.8, 1.17 % at 0.7,
2.4 % at 0.6, 8.3 % at 0.5.
"""
MIN_WIDTH = 48
MAX_WIDTH = 4096
"""A bound on memory: the output takes 9 MB for each 1,000 pixels."""
SURE = 0.85
NEAR_STEPS = 2
"""A line is read again if one of its characters is not this sure where it is surest, or if one may have been lost: if a
step says nothing that might have said what none so near to it says.

Measured on 1,790 lines of 58 pages, with the tiny recogniser first and the small one after it: at 0.85, 43 % of what
there is to read is read again, and 0.02 % of the characters are wrong that the small one alone reads; at 0.8 37 % and
0.05 %; at 0.7 30 % and 0.07 %; at 0.9 51 % and 0.01 %. By the mean of the line, which this was before, 30 % and
0.10 %, or 46 % and 0.06 %.
"""
SAMPLE = 8
HOPELESS = 0.25
"""If of about so many lines from all over a page no more than this share is read surely, the rest is not shown to a
network that another one comes after: Fraktur would be read twice, all of it.
"""
LINES_AT_ONCE = 64
"""A bound on memory: as the recogniser sees them, lines take half a megabyte each, and a newspaper page has 2,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One reading of lines by one network."""

    net: Net
    width_share: float
    """How much narrower than they are it sees them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A line's text and the mean probability of its characters; nothing where it has none."""

    text: str = ""
    confidence: float = 0.0
    weakest: float = 0.0
    """The least probability of a character, of each where it is surest."""
    is_whole: bool = False
    """Whether no character seems to have been lost."""
    pieces: tuple[Piece, ...] = ()
    """Its words."""

    @property
    def is_sure(self) -> bool:
        """Whether there is no need to read the line again."""
        return self.is_whole and self.weakest >= SURE


def read_lines(
    pixels: Pixels,
    quads: Sequence[FloatArray],
    passes: Sequence[Pass],
    alphabets: Mapping[Net, Sequence[str]],
) -> Asking[list[Reading]]:
    """Return what the parts of a page inside the quads say, each one's first edge taken for the top of its letters.

    A quad much taller than wide is read as if it were turned a quarter counter-clockwise: the recogniser was trained on
    vertical Chinese columns that way.
    """
    readings = []
    for start in range(0, len(quads), LINES_AT_ONCE):
        crops = [cut(pixels, quad) for quad in quads[start : start + LINES_AT_ONCE]]
        readings += yield from _read(crops, passes, alphabets)
    return readings


def _read(
    crops: Sequence[Pixels], passes: Sequence[Pass], alphabets: Mapping[Net, Sequence[str]]
) -> Asking[list[Reading]]:
    """Return what the last network that read each line makes of it: the surest of all readings is no better."""
    readings = [Reading()] * len(crops)

    def read(indices: Sequence[int], one: Pass) -> Asking[None]:
        images = [_seen(crops[index], one.width_share) for index in indices]
        found = yield Question(net=one.net, images=images)
        for index, best in zip(indices, found, strict=True):
            readings[index] = _spelled(best, alphabets[one.net])

    for one in passes:
        doubtful = [index for index, reading in enumerate(readings) if not reading.is_sure]
        if not doubtful:
            break
        sample = doubtful if one is passes[-1] else doubtful[:: math.ceil(len(doubtful) / SAMPLE)]
        yield from read(sample, one)
        is_worthwhile = sum(readings[index].is_sure for index in sample) > HOPELESS * len(sample)
        if is_worthwhile and (rest := sorted(set(doubtful) - set(sample))):
            yield from read(rest, one)
    return readings


def _spelled(best: Best, alphabet: Sequence[str]) -> Reading:
    """Return the text of a line by CTC: repeated labels are one character, and blanks are none."""
    begins = np.flatnonzero(np.diff(best.labels, prepend=-1))
    says = best.labels[begins] != BLANK
    kept = begins[says]
    characters = [alphabet[label] for label in best.labels[kept]]
    if not characters:
        return Reading()
    scores = best.scores[kept]
    middles = (kept + 0.5) / len(best.labels)
    return Reading(
        text="".join(characters),
        confidence=float(scores.mean()),
        weakest=float(np.maximum.reduceat(best.scores, begins)[says].min()),
        is_whole=_is_whole(best),
        pieces=tuple(pieces_of(characters, middles.tolist(), scores.tolist())),
    )


def _is_whole(best: Best) -> bool:
    if best.unsaid is None:
        return True
    steps = np.flatnonzero(best.unsaid)
    return all(best.unsaid[step] in best.labels[max(0, step - NEAR_STEPS) : step + NEAR_STEPS + 1] for step in steps)


def cut(pixels: Pixels, quad: FloatArray) -> Pixels:
    """Return the part of a page inside a quad, upright."""
    left, top = np.floor(quad.min(axis=0)).astype(int)
    right, bottom = np.ceil(quad.max(axis=0)).astype(int) + 1
    near = pixels[top:bottom, left:right]  # OpenCV warps from no image of more than 32,767 pixels a side
    width, height = _size(quad)
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(quad - np.array([left, top], np.float32), corners)
    warped = cv2.warpPerspective(near, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE, flags=cv2.INTER_CUBIC)
    crop = np.asarray(warped, np.uint8)
    return np.ascontiguousarray(np.rot90(crop)) if runs_down(quad) else crop


def runs_down(quad: FloatArray) -> bool:
    """Whether what stands in a quad is read from its first edge to the one opposite."""
    width, height = _size(quad)
    return height >= 1.5 * width


def _size(quad: FloatArray) -> tuple[int, int]:
    top_left, top_right, bottom_right, bottom_left = quad
    width = max(1, int(max(np.linalg.norm(top_left - top_right), np.linalg.norm(bottom_right - bottom_left))))
    height = max(1, int(max(np.linalg.norm(top_left - bottom_left), np.linalg.norm(top_right - bottom_right))))
    return width, height


def _input_width(wanted: int) -> int:
    """Return a width close to the wanted one, out of about a hundred.

    OpenVINO prepares itself for each width that it has not seen lately: 30 ms, as long as reading a short line.
    """
    step = 1 << max(3, wanted.bit_length() - 5)
    return min(MAX_WIDTH, max(MIN_WIDTH, round(wanted / step) * step))


def _seen(crop: Pixels, width_share: float) -> FloatArray:
    height, width = crop.shape[:2]
    size = (_input_width(round(width * HEIGHT / height * width_share)), HEIGHT)
    resized = cv2.resize(crop, size, interpolation=cv2.INTER_AREA if height > HEIGHT else cv2.INTER_LINEAR)
    return normalised(np.asarray(resized, np.uint8))
