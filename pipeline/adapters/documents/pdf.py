"""Reads PDFs with PDFium: page facts, pixels and text layers, one page at a time.

PDFium is not thread-safe, so one lock per process surrounds every call; and no document may be kept across a fork.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from pipeline.adapters.documents import sniff
from pipeline.adapters.documents.geometry import (
    bounded_dpi,
    check_decoded_size,
    check_side,
    page_damaged,
    pixels_of,
    scan_dpi,
    unreadable_page,
)
from pipeline.adapters.documents.page_class import PageEvidence, has_poor_layer, layer_doubt, page_class
from pipeline.adapters.documents.pdf_contents import PageContents, bytes_per_pixel, contents_of
from pipeline.domain import text_quality
from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Rejected
from pipeline.domain.recognition import Flag
from pipeline.ports.documents import DocumentLimits, PageImage, PageOrigin, TextLayer

PDFIUM = threading.RLock()
"""Surrounds every call, see the module's docstring."""
_SAMPLED_GLYPHS = 400
_LETTER = (0.0, 0.0, 612.0, 792.0)
_HAIR_PT = 1e-3
_DIGITS = 1e-6
"""What numbers of 32 bits lose, of their size."""
_SMALL_ENOUGH = 4
"""A picture with less than this part of the pixels allowed need not be asked how many bytes each takes: at most 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenPage:
    """A loaded page and what was found on it; valid while the page is."""

    page: Any
    contents: PageContents
    page_class: PageClass
    layer_doubt: float | None
    has_poor_layer: bool
    width_pt: float
    height_pt: float
    dpi: float


class PdfFile:
    """A PDF that is open."""

    media_type = sniff.PDF

    def __init__(
        self,
        document: Any,
        limits: DocumentLimits,
        *,
        pages: int,
        stated_pages: int = 0,
        flags: tuple[Flag, ...] = (),
        is_repaired: bool = False,
    ) -> None:
        self._document = document
        self._limits = limits
        self._flags = flags
        self._is_repaired = is_repaired
        self._judged: dict[int, tuple[PageClass, float | None, bool]] = {}
        self._loadable_pages = pages
        if self._loadable_pages > limits.max_pages:
            raise Rejected(
                ErrorCode.TOO_MANY_PAGES,
                f"The PDF has {self._loadable_pages} pages, {limits.max_pages} are allowed:"
                " split it, or raise limits.max_pages.",
            )
        self._page_count = self._loadable_pages
        if self._loadable_pages < stated_pages <= limits.max_pages:
            self._page_count = stated_pages
            self._flags += (Flag(name="pages_lost", score=1 - self._loadable_pages / stated_pages),)

    @property
    def page_count(self) -> int:
        """Return how many pages there are, those that a repair could not save included."""
        return self._page_count

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Return `repaired` where the file was, `pages_lost` (with their share) where that did not save every page.

        `page_count_disputed`, with the share that is in dispute, where two readers count differently.
        """
        return self._flags

    def facts(self, number: int) -> PageFacts:
        """Return what the file says of a page, in 1 to 10 ms for most."""
        try:
            with self._look(number) as seen:
                if seen.page_class in (PageClass.SCAN, PageClass.MIXED):
                    self._check_pictures(seen)
                if seen.page_class is PageClass.BLANK and self._is_repaired:
                    raise page_damaged(number, "nothing of what was on it could be saved")
                return PageFacts(
                    number=number,
                    page_class=seen.page_class,
                    width_pt=seen.width_pt,
                    height_pt=seen.height_pt,
                    dpi=seen.dpi,
                    has_poor_layer=seen.has_poor_layer,
                )
        except RecognitionFailed as error:
            return unreadable_page(number, error.code, self._limits)

    def render(self, number: int, *, dpi: float | None = None) -> PageImage:
        """Return the page's pixels, annotations and form fields drawn; scripts are never run."""
        with self._look(number) as seen:
            self._check_pictures(seen)
            dpi = bounded_dpi(dpi or seen.dpi, seen.width_pt, seen.height_pt, self._limits)
            return _drawn(seen, number, dpi)

    def text_layer(self, number: int) -> TextLayer:
        """Return the page's own text, form values included, without what lies outside the page box."""
        from pipeline.adapters.documents.pdf_text import placement_of, text_blocks  # noqa: PLC0415 - numpy: 150 ms

        with self._look(number) as seen:
            placement = placement_of(seen.page, seen.dpi)
            return TextLayer(
                width_px=placement.width_px,
                height_px=placement.height_px,
                dpi=seen.dpi,
                blocks=text_blocks(seen.page, seen.contents, placement),
            )

    def origin(self, number: int) -> PageOrigin:
        """Return the resolution of the scan that the page is, and what is wrong with its text."""
        with self._look(number) as seen:
            return PageOrigin(scan_dpi=seen.contents.scan_dpi, layer_doubt=seen.layer_doubt)

    @contextmanager
    def _look(self, number: int) -> Iterator["_SeenPage"]:
        with self._page(number) as page:
            width_pt, height_pt = page.get_size()
            check_side(width_pt, height_pt, self._limits)
            contents = contents_of(page, page.get_bbox())
            found, doubt, is_poor = self._judged.get(number) or _judgement(_evidence(page, contents))
            self._judged[number] = found, doubt, is_poor
            dpi = self._limits.dpi
            if found is PageClass.SCAN and (native := contents.scan_dpi):
                dpi = scan_dpi(native, max(width_pt, height_pt), self._limits)
            yield _SeenPage(
                page=page,
                contents=contents,
                page_class=found,
                layer_doubt=doubt,
                has_poor_layer=is_poor,
                width_pt=width_pt,
                height_pt=height_pt,
                dpi=bounded_dpi(dpi, width_pt, height_pt, self._limits),
            )

    @contextmanager
    def _page(self, number: int) -> Iterator[Any]:
        with PDFIUM:
            if not 1 <= number <= self._loadable_pages:
                raise page_damaged(number, "it was lost when the file was damaged")
            try:
                page = self._document[number - 1]
            except pypdfium2.PdfiumError as error:
                raise page_damaged(number, "its page object is missing or broken") from error
            try:
                _give_it_a_size(page)
                yield page
            except pypdfium2.PdfiumError as error:
                raise page_damaged(number, error) from error
            finally:
                page.close()

    def _check_pictures(self, seen: "_SeenPage") -> None:
        for picture in seen.contents.pictures:
            is_large = picture.width_px * picture.height_px > self._limits.max_image_pixels // _SMALL_ENOUGH
            bytes_each = bytes_per_pixel(seen.page, picture) if is_large else 1.0
            check_decoded_size(picture.width_px, picture.height_px, bytes_each, self._limits)


def _give_it_a_size(page: Any) -> None:
    """Undo a crop box that leaves nothing of the page: readers show the media box then, or a Letter page."""
    width_pt, height_pt = page.get_size()
    if not (width_pt > 0 and height_pt > 0):
        left, bottom, right, top = page.get_mediabox()
        box = (left, bottom, right, top) if left < right and bottom < top else _LETTER
        _set_box(page, *box)


def _judgement(evidence: PageEvidence) -> tuple[PageClass, float | None, bool]:
    return page_class(evidence), layer_doubt(evidence), has_poor_layer(evidence)


def _evidence(page: Any, contents: PageContents) -> PageEvidence:
    text, unmapped_share = _text(page) if contents.text_objects else ("", 0.0)
    characters = text_quality.visible_count(text)
    is_judged_by_words = contents.hidden_share >= 0.5
    return PageEvidence(
        draws=contents.draws,
        characters=characters + sum(text_quality.visible_count(value.text) for value in contents.field_values),
        garbled_share=text_quality.garbled_count(text) / characters if characters else 0.0,
        unmapped_share=unmapped_share,
        odd_share=text_quality.odd_share(text) if is_judged_by_words else 0.0,
        hidden_share=contents.hidden_share,
        covered_share=contents.covered_share,
        picture_capacity=sum(picture.capacity for picture in contents.pictures),
        path_segments=contents.path_segments,
        has_drawn_annotations=contents.has_drawn_annotations,
    )


def _text(page: Any) -> tuple[str, float]:
    """Return the text within the page box, and the share of glyphs without a character, from a sample."""
    textpage = page.get_textpage()
    try:
        count = textpage.count_chars()
        sample = range(0, count, max(1, count // _SAMPLED_GLYPHS))
        unmapped = sum(pdfium.FPDFText_HasUnicodeMapError(textpage.raw, index) == 1 for index in sample)
        return textpage.get_text_bounded(), unmapped / len(sample) if sample else 0.0
    finally:
        textpage.close()


@contextmanager
def _a_hair_larger(page: Any) -> Iterator[None]:
    """Let the page end less than a pixel beyond what lies on it, so that scans are drawn pixel by pixel.

    PDFium 8149 stretches an image over each pixel that it touches: one of 1654 pixels that ends at 1654.0001, for want
    of digits, over 1655, and none of its pixels is left as it was.
    """
    box = left, bottom, right, top = page.get_bbox()
    _set_box(page, left - _hair(left), bottom - _hair(bottom), right + _hair(right), top + _hair(top))
    try:
        yield
    finally:
        _set_box(page, *box)


def _hair(edge: float) -> float:
    return _HAIR_PT + _DIGITS * abs(edge)


def _set_box(page: Any, *box: float) -> None:
    page.set_mediabox(*box)
    page.set_cropbox(*box)


def _drawn(seen: "_SeenPage", number: int, dpi: float) -> PageImage:
    import numpy as np  # noqa: PLC0415 - 150 ms that the inspection of a document need not pay

    width, height = pixels_of(seen.width_pt, dpi), pixels_of(seen.height_pt, dpi)
    pixels = np.full((height, width, 3), 255, np.uint8)
    bitmap = pdfium.FPDFBitmap_CreateEx(width, height, pdfium.FPDFBitmap_BGR, pixels.ctypes.data, width * 3)
    if not bitmap:
        raise page_damaged(number, f"no bitmap of {width} x {height} pixels could be made")
    try:
        where = (bitmap, seen.page.raw, 0, 0, width, height, 0, pdfium.FPDF_ANNOT | pdfium.FPDF_REVERSE_BYTE_ORDER)
        with _a_hair_larger(seen.page):
            pdfium.FPDF_RenderPageBitmap(*where)
            if seen.page.formenv:
                pdfium.FPDF_FFLDraw(seen.page.formenv.raw, *where)
    finally:
        pdfium.FPDFBitmap_Destroy(bitmap)
    return PageImage(number=number, pixels=pixels, dpi=dpi)
