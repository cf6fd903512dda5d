"""Where the text on a page is: PP-OCR's detector and its DB post-processing.

A quad is a float32 array (4, 2) of x, y in pixels of the given image, corners clockwise from the top left one.
Source of the steps and thresholds: PaddleOCR's DBPostProcess as rapidocr 3.10 carries it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np

from pipeline.engines.ppocr.asking import Asking, Question, normalised
from pipeline.engines.ppocr.runtime import FloatArray, Net
from pipeline.ports.documents import Pixels

SIDE_LIMIT = 1280
"""Longest side of what the detector usually sees, pixels.

Measured on 30 pages with known text and five dense ones: the same error as at 1920 and 2560 (0.9 % of the characters
on the mean, 0.16 % on the median), for 0.65 s a page instead of 1.5 and 3 s.
"""
COARSE = 0.5
"""How closely it looks again where it found nothing: a word alone on a white page is seen only there (the network
weighs each place against the whole of what it sees)."""
FINE = 2.0
MIN_BOX_HEIGHT = 13.0
"""In pixels of what the detector sees. Where half of the boxes are lower, lines begin to melt into one another, and it
looks again, `FINE` times as closely. Measured on an A2 page of 11 point print: 0.05 % of the characters lost at 12.7,
0.5 % at 10.3, 12 % at a sixth less resolution still."""
MAX_ASPECT = 5.0
"""A page longer than this many times its breadth is looked at in parts of about `PART_ASPECT`, or of `SIDE_LIMIT`."""
PART_ASPECT = 2.0
OVERLAP = 128
"""In pixels of what the detector sees: a line of 2,400 that slants by 3 degrees."""
STRIDE = 32
TEXT_PROBABILITY = 0.3
BOX_SCORE = 0.5
UNCLIP_RATIO = 1.6
MIN_SIDE = 3
MAX_BOXES = 5000
"""A bound on time for pages of pure noise."""


def detect(pixels: Pixels, side_limit: int = SIDE_LIMIT) -> Asking[list[FloatArray]]:
    """Return a quad around each run of text, in no particular order.

    Memory is bounded whatever the page: the network sees at most about two million pixels at once.
    Args: side_limit is the longest side of what the detector sees, pixels.
    """
    height, width = pixels.shape[:2]
    along = 0 if width > height else 1
    length, breadth = max(height, width), min(height, width)
    count = 1 if length <= MAX_ASPECT * breadth else math.ceil(length / max(PART_ASPECT * breadth, side_limit))
    scale = min(1.0, count * side_limit / length)
    quads = yield from _in_parts(pixels, along, count, scale)
    if not quads:
        quads = yield from _in_parts(pixels, along, count, COARSE * scale)
    if scale < 1 and quads and np.median([_short_side(quad) for quad in quads]) * scale < MIN_BOX_HEIGHT:
        scale = min(1.0, FINE * scale)
        return (yield from _in_parts(pixels, 1, math.ceil(height * width * scale**2 / side_limit**2), scale))
    return quads


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of a page, in pixels along it, and the middle of it whose text is taken from it."""

    start: int
    stop: int
    first: float
    last: float
    tolerance: float

    def owns(self, places: FloatArray) -> bool:
        """Whether what lies there is this part's to tell; close to a border both parts tell, as they measure apart."""
        middle = float(places.min() + places.max()) / 2
        return self.first - self.tolerance <= middle < self.last + self.tolerance

    def trimmed(self, quad: FloatArray, along: int) -> FloatArray:
        """Return the quad, cut off in mid-overlap where it ran on into a neighbour, which has the rest of it."""
        low = self.first if quad[:, along].min() <= self.start + 1 else -np.inf
        high = self.last if quad[:, along].max() >= self.stop - 2 else np.inf
        quad[:, along] = quad[:, along].clip(low, high)
        return quad


def parts_of(length: int, count: int, overlap: float) -> list[Part]:
    """Return parts that cover a length, each reaching over into its neighbours."""
    borders = [length * index / count for index in range(count + 1)]
    return [
        Part(
            start=max(0, int(first - overlap)),
            stop=min(length, int(last + overlap)),
            first=first if index else -math.inf,
            last=last if index < count - 1 else math.inf,
            tolerance=overlap / 8,
        )
        for index, (first, last) in enumerate(pairwise(borders))
    ]


def _in_parts(pixels: Pixels, along: int, count: int, scale: float) -> Asking[list[FloatArray]]:
    """Return the quads of a page looked at in parts along an axis, 0 from left to right, 1 from top to bottom."""
    height, width = pixels.shape[:2]
    found = []
    for part in parts_of((width, height)[along], count, OVERLAP / scale):
        view = pixels[:, part.start : part.stop] if along == 0 else pixels[part.start : part.stop]
        for quad in (yield from _detect(view, scale)):
            quad[:, along] += part.start
            if part.owns(quad[:, along]):
                found.append(part.trimmed(quad, along))
    return found if count == 1 else _without_doubles(found)


def _without_doubles(quads: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the quads without those that have an earlier one's middle: the same line, seen from two parts."""
    kept: list[FloatArray] = []
    middles = np.empty((0, 2), np.float32)
    for quad in quads:
        middle = quad.mean(axis=0)
        if not np.any(np.linalg.norm(middles - middle, axis=1) < _short_side(quad) / 2):
            kept.append(quad)
            middles = np.vstack([middles, middle])
    return kept


def _short_side(quad: FloatArray) -> float:
    return float(min(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[1] - quad[2])))


def _detect(pixels: Pixels, scale: float) -> Asking[list[FloatArray]]:
    height, width = pixels.shape[:2]
    size = (_in_strides(width * scale), _in_strides(height * scale))
    seen = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    [probability] = yield Question(net=Net.DETECTOR, images=[normalised(np.asarray(seen, np.uint8))])
    enlarge = np.array([width / size[0], height / size[1]], np.float32)
    edge = np.array([width - 1, height - 1], np.float32)
    return [np.clip(quad * enlarge, 0, edge) for quad in _boxes(probability)]


def _in_strides(side: float) -> int:
    return max(STRIDE, round(side / STRIDE) * STRIDE)


def _boxes(probability: FloatArray) -> list[FloatArray]:
    mask = cv2.dilate((probability > TEXT_PROBABILITY).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found = []
    for contour in sorted(contours, key=len, reverse=True)[:MAX_BOXES]:
        centre, (across, along), angle = cv2.minAreaRect(contour)
        if min(across, along) < MIN_SIDE:
            continue
        if _score(probability, _corners(centre, (across, along), angle)) < BOX_SCORE:
            continue
        # The network marks a shrunken core of each run of text; growing a rectangle needs no polygon clipping.
        margin = across * along * UNCLIP_RATIO / (across + along)
        found.append(_clockwise(_corners(centre, (across + margin, along + margin), angle)))
    return found


def _corners(centre: Sequence[float], size: tuple[float, float], angle: float) -> FloatArray:
    return np.asarray(cv2.boxPoints((centre, size, angle)), np.float32)


def _score(probability: FloatArray, quad: FloatArray) -> float:
    height, width = probability.shape
    left, top = np.clip(np.floor(quad.min(axis=0)).astype(int), 0, (width - 1, height - 1))
    right, bottom = np.clip(np.ceil(quad.max(axis=0)).astype(int), 0, (width - 1, height - 1))
    mask = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(mask, [(quad - (left, top)).astype(np.int32)], 1)
    return float(cv2.mean(probability[top : bottom + 1, left : right + 1], mask)[0])


def _clockwise(quad: FloatArray) -> FloatArray:
    """Return a rectangle's corners clockwise, so that the first edge runs to the right within 45 degrees."""
    directions = np.roll(quad, -1, axis=0) - quad
    rightward = directions[:, 0] / np.maximum(np.linalg.norm(directions, axis=1), 1e-6)
    return np.roll(quad, -int(rightward.argmax()), axis=0).astype(np.float32)
