"""A look at the picture of a page that has been read: how its letters are drawn, and what shines through between them.

Takes about 50 ms of a core, a hundredth of reading the page; what it finds is judged by `domain/page_doubts.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.adapters.blank_pages import MIN_CONTRAST, STROKE_PX, small_grey
from pipeline.domain.geometry import box_around, sides
from pipeline.domain.page_doubts import PageLook
from pipeline.domain.recognition import Line
from pipeline.ports.documents import PageImage, Pixels

SAMPLED_LINES = 12
SAMPLED_HEIGHTS = 8.0
"""From the middle of each, so many times as wide as it is high."""
LEAST_INK = 40.0
"""Grey levels between the ink of a line and its paper, for its edges to say something."""
STEEPEST = 98.0
"""Percentile of the slopes in a line that is taken for that of its letters' edges."""
STROKE_LINE_PX = 64
"""Height that lines are brought to, for strokes to be measured alike whatever the resolution."""
MOST_HEIGHTS = 4.0
"""Of a line that runs slanting, the box around it may be so many times as high."""
LEAST_DEPTH_PX = 0.9
"""Of ink, to be a stroke and not a speck."""

FAINT = 8.0
NOISE_RATIO = 3.0
"""Grey levels below the paper, and times its usual roughness, from which a mark is one."""
INK_SHARE = 0.4
"""Marks with more than this share of the contrast that the page's ink has are ink."""
NEAR_INK_PX = 9
"""Blur and compression leave marks this near to ink."""
MARK_PX = (3, 40)
MIN_MARK_AREA = 8
MAX_MARK_ASPECT = 20.0
"""Height, area and breadth in heights of a letter or word, or a piece of one, at 100 dpi; rules are flatter."""
PARTS = 12
"""Rows and columns that the page is divided into. A picture has faint marks, too, but in one place."""
MARKED_SHARE = 0.004
"""Of a part's pixels, from which it is marked."""


def look_at(page: PageImage, lines: Sequence[Line]) -> PageLook:
    """Return what is to be seen on a page; lines lie on it in its pixels."""
    crops = list(_crops(page.pixels, lines[:: max(1, len(lines) // SAMPLED_LINES)]))
    strokes = [stroke for crop in crops if (stroke := _stroke_em(crop))]
    return PageLook(
        edge_px=float(np.median([_edge_px(crop) for crop in crops])) if crops else None,
        shown_through=_shown_through(small_grey(page), page, lines),
        stroke_em=float(np.median(strokes)) if strokes else None,
    )


@dataclass(frozen=True, slots=True)
class _Crop:
    """The middle of a line."""

    grey: NDArray[np.float32]
    contrast: float
    """From its ink to its paper, in grey levels."""
    height_px: float
    """Of the line."""


def _crops(pixels: Pixels, lines: Sequence[Line]) -> Iterator[_Crop]:
    """Yield the middle of each line that has some ink."""
    for line in lines:
        box = box_around(line.polygon)
        across, down = box.right - box.left, box.bottom - box.top
        kept = SAMPLED_HEIGHTS * min(across, down) / 2
        x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
        left, right = max(box.left, x - kept), min(box.right, x + kept)
        top, bottom = max(box.top, y - kept), min(box.bottom, y + kept)
        crop = pixels[max(0, int(top)) : int(bottom) + 1, max(0, int(left)) : int(right) + 1]
        if min(crop.shape[:2]) < 4:
            continue
        grey = np.asarray(cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_RGB2GRAY), np.float32)
        dark, light = np.percentile(grey, (2, 98))
        if light - dark >= LEAST_INK:
            yield _Crop(grey, float(light - dark), max(1.0, min(sides(line.polygon))))


def _edge_px(crop: _Crop) -> float:
    """Return over how many pixels the contrast of a line rises: its greatest difference over its steepest slope."""
    slopes = np.maximum(np.abs(np.diff(crop.grey, axis=0)[:, 1:]), np.abs(np.diff(crop.grey, axis=1)[1:]))
    return float(crop.contrast / max(1.0, np.percentile(slopes, STEEPEST)))


def _stroke_em(crop: _Crop) -> float | None:
    """Return how broad the strokes of a line are on average, in its heights; None of one that is far from level."""
    if min(crop.grey.shape) > MOST_HEIGHTS * crop.height_px:
        return None
    scale = STROKE_LINE_PX / crop.height_px
    softly = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    sized = cv2.resize(crop.grey, None, fx=scale, fy=scale, interpolation=softly)
    smooth = cv2.GaussianBlur(sized.clip(0, 255).astype(np.uint8), (3, 3), 0)
    _, ink = cv2.threshold(smooth, 0, 255, cv2.THRESH_BINARY_INV + cv2.THRESH_OTSU)
    depth = cv2.distanceTransform(ink, cv2.DIST_L2, 3)
    # The middle of a stroke lies deepest in its ink.
    middles = depth[(depth >= cv2.dilate(depth, np.ones((3, 3), np.uint8))) & (depth > LEAST_DEPTH_PX)]
    return 2 * float(middles.mean()) / STROKE_LINE_PX if middles.size else None


def _shown_through(grey: Pixels, page: PageImage, lines: Sequence[Line]) -> float:
    hat = np.asarray(cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, np.ones((STROKE_PX, STROKE_PX), np.uint8)), np.uint8)
    faintest = max(FAINT, NOISE_RATIO * float(np.median(hat[::4, ::4])))
    ink = (hat >= max(MIN_CONTRAST, INK_SHARE * float(np.percentile(hat[::2, ::2], 99.5)))).astype(np.uint8)
    taken = cv2.dilate(ink, np.ones((NEAR_INK_PX, NEAR_INK_PX), np.uint8))
    scale = grey.shape[1] / page.width_px
    for line in lines:
        corners = np.array([(x * scale, y * scale) for x, y in line.polygon], np.int32)
        cv2.fillPoly(taken, [corners], 1.0)
    faint = ((hat >= faintest) & (taken == 0)).astype(np.uint8)
    return _marked_share(faint)


def _marked_share(faint: Pixels) -> float:
    """Return the share of the page's parts that have faint marks of the size of letters."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(faint, connectivity=8)
    _, _, across, down, area = stats.T
    is_mark = (down >= MARK_PX[0]) & (down <= MARK_PX[1]) & (area >= MIN_MARK_AREA) & (across <= MAX_MARK_ASPECT * down)
    is_mark[0] = False  # what lies between the marks
    marked = cv2.resize(is_mark.astype(np.float32)[labels], (PARTS, PARTS), interpolation=cv2.INTER_AREA)
    return float(np.mean(np.asarray(marked) >= MARKED_SHARE))
