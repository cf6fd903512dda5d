"""Plane geometry of polygons on a page: x to the right, y down, angles in degrees clockwise as a reader sees them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.domain.recognition import Point, Polygon


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """An upright rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def __post_init__(self) -> None:
        if self.right < self.left or self.bottom < self.top:
            raise ValueError(f"no box: {self.left}, {self.top} to {self.right}, {self.bottom}")

    @property
    def width(self) -> float:
        """Return the width."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Return the height."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Return the height of the middle line."""
        return (self.top + self.bottom) / 2

    @property
    def corners(self) -> Polygon:
        """Return the corners, clockwise from the top left one."""
        return ((self.left, self.top), (self.right, self.top), (self.right, self.bottom), (self.left, self.bottom))


def box_around(points: Iterable[Point]) -> Box:
    """Return the smallest upright rectangle that holds all points, of which there is at least one."""
    xs, ys = zip(*points, strict=True)
    return Box(left=min(xs), top=min(ys), right=max(xs), bottom=max(ys))


def sides(polygon: Polygon) -> tuple[float, float]:
    """Return how long the first two sides of a quadrangle are."""
    first, second, third = polygon[:3]
    return math.dist(first, second), math.dist(second, third)


def turn(points: Iterable[Point], angle_deg: float) -> Polygon:
    """Return the points turned clockwise about the origin."""
    cos, sin = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    return tuple((x * cos - y * sin, x * sin + y * cos) for x, y in points)


def page_frame(width: float, height: float, angle_deg: float) -> Box:
    """Return the box around a page, from its top left corner, once it is turned back by the angle of its text."""
    return box_around(turn([(0, 0), (width, 0), (width, height), (0, height)], -angle_deg))


def weighted_median(weighted: Iterable[tuple[float, float]]) -> float:
    """Return the value below which half of the weight lies; pairs are (value, weight), at least one."""
    ordered = sorted(weighted)
    half = sum(weight for _, weight in ordered) / 2
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= half:
            return value
    return ordered[-1][0]
