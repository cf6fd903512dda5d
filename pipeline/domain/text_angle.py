"""Which way the text of a page runs, from the polygons of its lines."""

import math
from collections import Counter
from collections.abc import Sequence

from pipeline.domain.geometry import weighted_median
from pipeline.domain.recognition import Line, Polygon
from pipeline.domain.writing import cjk_share

MIN_ASPECT = 3.0
"""Shorter boxes say little about the slope of their text."""
MAX_SKEW_DEG = 20.0


def text_angle(lines: Sequence[Line]) -> float:
    """Return by how many degrees clockwise the text is turned: 0 upright, 90 where it runs down the page.

    Each polygon says it by its first edge, which runs along the top of the letters; slopes are taken from long lines.
    """
    quarters = _quarter_turns(lines)
    slopes = [
        (slope, length)
        for length, breadth, slope in map(_long_side, (line.polygon for line in lines))
        if length >= MIN_ASPECT * breadth and abs(slope) <= MAX_SKEW_DEG
    ]
    return 90.0 * quarters + (weighted_median(slopes) if slopes else 0.0)


def is_vertical(lines: Sequence[Line]) -> bool:
    """Whether most of the text stands in Chinese or Japanese columns, read down the page."""
    tall = sum(len(line.text) for line in lines if len(line.text) > 1 and _is_tall(line.polygon))
    return 2 * tall > sum(len(line.text) for line in lines) and cjk_share("".join(line.text for line in lines)) > 0.5


def is_across(line: Line) -> bool:
    """Whether a line is clearly longer along the tops of its letters than down them."""
    (x0, y0), (x1, y1), (x2, y2) = line.polygon[:3]
    return len(line.text) > 1 and math.hypot(x1 - x0, y1 - y0) > 1.5 * math.hypot(x2 - x1, y2 - y1)


def _quarter_turns(lines: Sequence[Line]) -> int:
    votes: Counter[int] = Counter()
    for line in lines:
        (x0, y0), (x1, y1) = line.polygon[:2]
        votes[round(math.degrees(math.atan2(y1 - y0, x1 - x0)) / 90) % 4] += len(line.text)
    return min(votes, key=lambda quarters: (-votes[quarters], quarters), default=0)


def _long_side(polygon: Polygon) -> tuple[float, float, float]:
    """Return a quad's length and breadth, and by how many degrees its length is off the nearest axis."""
    (x0, y0), (x1, y1), (x2, y2) = polygon[:3]
    first, second = (x1 - x0, y1 - y0), (x2 - x1, y2 - y1)
    along, across = (first, second) if math.hypot(*first) >= math.hypot(*second) else (second, first)
    slope = (math.degrees(math.atan2(along[1], along[0])) + 45) % 90 - 45
    return math.hypot(*along), math.hypot(*across), slope


def _is_tall(polygon: Polygon) -> bool:
    """Whether a line is longer down its letters than along their tops."""
    (x0, y0), (x1, y1), (x2, y2) = polygon[:3]
    return math.hypot(x2 - x1, y2 - y1) > 1.5 * math.hypot(x1 - x0, y1 - y0)
