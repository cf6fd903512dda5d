"""Sizes and resolutions of pages: how many pixels a page gets, within the limits. Pure."""

from math import sqrt

from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.errors import ErrorCode, RecognitionFailed
from pipeline.ports.documents import DocumentLimits

POINTS_PER_INCH = 72.0
_COARSEST_SCAN_DPI = 100.0
_ENOUGH_PX = 2339.0
"""An A4 page at 200 dpi is this high; a coarse scan is never enlarged beyond."""


def scan_dpi(native_dpi: float, long_side_pt: float, limits: DocumentLimits) -> float:
    """Return what to render a scanned page at: its own resolution between 100 dpi and the finest, else near that.

    A coarser one is enlarged, at most twice, as long as the page stays smaller than an ordinary one. Enlarging
    hardly helps (an A4 page at 72 dpi read at 72, 144 and 200: the same characters), so it stays modest.
    """
    if native_dpi >= _COARSEST_SCAN_DPI:
        return min(native_dpi, limits.finest_scan_dpi)
    enough = _ENOUGH_PX * POINTS_PER_INCH / long_side_pt
    return max(native_dpi, min(limits.dpi, 2 * native_dpi, enough))


def bounded_dpi(dpi: float, width_pt: float, height_pt: float, limits: DocumentLimits) -> float:
    """Return the resolution, lowered where the page would have more than the pixels it may have."""
    highest = POINTS_PER_INCH * sqrt(limits.max_render_pixels / (width_pt * height_pt))
    if dpi <= highest:
        return dpi
    half_a_pixel = POINTS_PER_INCH / 2 / min(width_pt, height_pt)
    return max(highest - half_a_pixel, highest / 2)


def pixels_of(length_pt: float, dpi: float) -> int:
    """Return how many pixels a side gets, at least 1; the rendered page and its text layer agree on it."""
    return max(1, round(length_pt * dpi / POINTS_PER_INCH))


def check_side(width_pt: float, height_pt: float, limits: DocumentLimits) -> None:
    """Refuse a page box longer than the limit. Raises: RecognitionFailed (`page_too_large`)."""
    if not max(width_pt, height_pt) <= limits.max_page_side_pt:
        raise RecognitionFailed(
            ErrorCode.PAGE_TOO_LARGE,
            f"The page measures {width_pt:.0f} x {height_pt:.0f} points (1/72 inch); the longest side allowed is"
            f" {limits.max_page_side_pt:.0f}. Correct the page box, or raise limits.max_page_side_pt.",
        )


def check_decoded_size(width_px: int, height_px: int, bytes_per_pixel: float, limits: DocumentLimits) -> None:
    """Refuse an image that would take too much memory to decode, by the size that it declares.

    Decoded bytes are held against the same number as pixels are: a bilevel image may have all of them, one in
    colour a third or a quarter.

    Raises: RecognitionFailed (`decompression_bomb`).
    """
    pixels = width_px * height_px
    if pixels * max(1.0, bytes_per_pixel) > limits.max_image_pixels:
        raise RecognitionFailed(
            ErrorCode.DECOMPRESSION_BOMB,
            f"The image declares {width_px} x {height_px} pixels, more than is decoded here"
            f" ({limits.max_image_pixels} pixels or bytes). Scale it down, or raise limits.max_image_pixels.",
        )


def unreadable_page(number: int, code: str, limits: DocumentLimits) -> PageFacts:
    """Return the facts of a page of which nothing can be said but why."""
    return PageFacts(
        number=number,
        page_class=PageClass.UNREADABLE,
        width_pt=0.0,
        height_pt=0.0,
        dpi=limits.dpi,
        error_code=code,
    )


def page_damaged(number: int, cause: object) -> RecognitionFailed:
    """Return the error of a page that can't be loaded or decoded."""
    return RecognitionFailed(ErrorCode.PAGE_DAMAGED, f"Page {number} can't be read: {cause}. Scan or export it again.")
