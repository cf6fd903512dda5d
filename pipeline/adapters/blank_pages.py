"""Blank pages, told by their pixels alone, so that no engine has to look at them.

In doubt a page is not blank: reading an empty page costs a second, a page that was not read is lost.
"""

import cv2
import numpy as np

from pipeline.ports.documents import PageImage, Pixels

DPI = 100.0
SIDE_PX = (1200, 3200)
"""The page is judged at this resolution, its longer side within these bounds: four pixels a millimetre, eight for a
small letter of 10 point print. The bounds are for pages that are larger than usual or lie about their size."""
STROKE_PX = 17
"""Marks are strokes thinner than this, or the parts of broader shapes that such a square does not fit into."""
MIN_CONTRAST = 36
"""Grey levels between ink and paper. What shines through the corpus' blank scans stays below 30, its faintest print has
70."""
NOISE_RATIO = 5.0
"""How much more than the usual roughness of the paper a mark has to stand out."""
JOIN_PX = 5
"""What lies closer than this is one mark: the letters of a word in small print."""
MIN_MARK_PX = 6
MIN_INK_PX = 10
"""Longest side and area of a mark; specks of dust are smaller, a full stop too."""
LETTER_PX = 8
WORD_PX = 12
"""A mark this high or this long may be all there is: a page number, a word. Of smaller ones it takes `MIN_MARKS`."""
MIN_MARKS = 3
MAX_ASPECT = 20.0
"""Longer and thinner marks are scratches, folds and streaks of the scanner."""
SOLID_PX = 13
SOLID_CONTRAST = 60
"""Side of a square, and levels below the paper: dark shapes that hold one are borders, holes or thick letters."""
HOLE_PX = (13, 40)
HOLE_MARGIN = 0.2
HOLE_FILL = 0.8
"""Size of a punch hole, how far from the edge it may lie, and its least share of the square around it."""


def is_blank(page: PageImage) -> bool:
    """Whether nothing on the page could be a letter: no dark mark on lighter paper, nor a light one on dark."""
    grey = small_grey(page)
    solid = _solid_shapes(grey)
    if not _are_borders_and_holes(solid):
        return False
    kernel = np.ones((STROKE_PX, STROKE_PX), np.uint8)
    dark_marks = np.asarray(cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, kernel), np.uint8)
    # A square does not fit into the rim of a hole or the slant of a border.
    dark_marks[cv2.dilate(solid, np.ones((SOLID_PX, SOLID_PX), np.uint8)) > 0] = 0
    light_marks = np.asarray(cv2.morphologyEx(grey, cv2.MORPH_TOPHAT, kernel), np.uint8)
    return not (_has_text(dark_marks) or _has_text(light_marks))


def small_grey(page: PageImage) -> Pixels:
    """Return the page in grey, at the resolution that it is judged at."""
    grey = np.asarray(cv2.cvtColor(page.pixels, cv2.COLOR_RGB2GRAY), np.uint8)
    height, width = grey.shape
    least, most = (side / max(height, width) for side in SIDE_PX)
    scale = max(least, min(most, DPI / page.dpi))
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        if scale <= 0.5:
            # By half is ten times as fast as by any other factor.
            even = grey[: height // 2 * 2, : width // 2 * 2]
            grey = np.asarray(cv2.resize(even, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8)
        return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8)
    return grey


def _solid_shapes(grey: Pixels) -> Pixels:
    dark = (grey < float(np.median(grey[::4, ::4])) - SOLID_CONTRAST).astype(np.uint8)
    return np.asarray(cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((SOLID_PX, SOLID_PX), np.uint8)), np.uint8)


def _are_borders_and_holes(solid: Pixels) -> bool:
    """Whether all solid shapes are such as a scanner and a punch leave."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(solid, connectivity=8)
    return all(_is_at_edge(shape, solid.shape) or _is_hole(shape, solid.shape) for shape in stats[1:].tolist())


def _is_at_edge(shape: list[int], size: tuple[int, ...]) -> bool:
    left, top, across, down, _ = shape
    return left == 0 or top == 0 or left + across == size[1] or top + down == size[0]


def _is_hole(shape: list[int], size: tuple[int, ...]) -> bool:
    left, top, across, down, area = shape
    x, y = (left + across / 2) / size[1], (top + down / 2) / size[0]
    near_edge = min(x, y, 1 - x, 1 - y) < HOLE_MARGIN
    is_round = area >= HOLE_FILL * across * down and 0.75 <= across / down <= 1.33
    return near_edge and is_round and HOLE_PX[0] <= min(across, down) and max(across, down) <= HOLE_PX[1]


def _has_text(contrast: Pixels) -> bool:
    threshold = max(MIN_CONTRAST, NOISE_RATIO * float(np.median(contrast[::4, ::4])))
    mask = (contrast >= threshold).astype(np.uint8)
    if np.count_nonzero(mask) < MIN_INK_PX:
        return False
    joined = cv2.dilate(mask, np.ones((JOIN_PX, JOIN_PX), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    ink = np.bincount(labels[mask > 0], minlength=count)[1:]
    left, top, across, down, _ = stats[1:].T
    height, width = mask.shape
    inside = (left > 0) & (top > 0) & (left + across < width) & (top + down < height)
    across, down = across - (JOIN_PX - 1), down - (JOIN_PX - 1)
    long, short = np.maximum(across, down), np.minimum(across, down)
    marks = inside & (long >= MIN_MARK_PX) & (ink >= MIN_INK_PX) & (long <= MAX_ASPECT * short)
    enough = (down >= LETTER_PX) | ((long >= WORD_PX) & (short >= 3))
    return bool(np.count_nonzero(marks) >= MIN_MARKS or np.any(marks & enough))
