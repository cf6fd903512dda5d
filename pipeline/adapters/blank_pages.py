"""Blank pages, told by their pixels alone, so that no engine has to look at them.

In doubt a page is not blank: reading an empty page costs a second, a page that was not read is lost.
"""

import cv2
import numpy as np

from pipeline.ports.documents import PageImage, Pixels

SIDE_PX = 1200
"""The page is judged at this size: about four pixels a millimetre on A4, eight for a letter of 10 point print."""
STROKE_PX = 17
"""Marks are strokes thinner than this; dark borders, punch holes and shadows are broader."""
MIN_CONTRAST = 36
"""Grey levels between ink and paper. Show-through of the corpus' blank scans stays below 30, its faintest print
has 70."""
NOISE_RATIO = 5.0
"""How much more than the usual roughness of the paper a mark has to stand out."""
MIN_MARK_PX = 6
MIN_INK_PX = 10
"""Longest side and area of a mark; specks of dust are smaller, a full stop too."""
LETTER_PX = 8
"""A mark at least this high may be all there is: a page number. Of lower ones it takes `MIN_MARKS`."""
MIN_MARKS = 3
MAX_ASPECT = 20.0
"""Longer and thinner marks are scratches, folds and streaks of the scanner."""


def is_blank(page: PageImage) -> bool:
    """Whether nothing on the page could be a letter: no dark mark on lighter paper, nor a light one on dark."""
    grey = _small_grey(page.pixels)
    kernel = np.ones((STROKE_PX, STROKE_PX), np.uint8)
    return not any(
        _has_text(np.asarray(cv2.morphologyEx(grey, operation, kernel), np.uint8))
        for operation in (cv2.MORPH_BLACKHAT, cv2.MORPH_TOPHAT)
    )


def _small_grey(pixels: Pixels) -> Pixels:
    grey = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.uint8)
    height, width = grey.shape
    scale = SIDE_PX / max(height, width)
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8)
    return grey


def _has_text(contrast: Pixels) -> bool:
    threshold = max(MIN_CONTRAST, NOISE_RATIO * float(np.median(contrast[::4, ::4])))
    mask = (contrast >= threshold).astype(np.uint8)
    if np.count_nonzero(mask) < MIN_INK_PX:
        return False
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    left, top, across, down, ink = stats[1:].T
    long, short = np.maximum(across, down), np.minimum(across, down)
    height, width = mask.shape
    inside = (left > 1) & (top > 1) & (left + across < width - 1) & (top + down < height - 1)
    marks = inside & (long >= MIN_MARK_PX) & (ink >= MIN_INK_PX) & (long <= MAX_ASPECT * short)
    return bool(np.count_nonzero(marks) >= MIN_MARKS or np.any(marks & (down >= LETTER_PX)))
