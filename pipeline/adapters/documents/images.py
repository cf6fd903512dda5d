"""Opens image files with Pillow: each picture of a TIFF is a page, any other file is one page."""

import importlib
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from PIL import Image

from pipeline.adapters.documents import sniff
from pipeline.adapters.documents.frugal import frugal
from pipeline.adapters.documents.geometry import (
    POINTS_PER_INCH,
    bounded_dpi,
    check_decoded_size,
    check_side,
    page_damaged,
    pixels_of,
    scan_dpi,
    unreadable_page,
)
from pipeline.adapters.documents.tiff import TiffPages, tiff_pages
from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Rejected
from pipeline.domain.recognition import Flag
from pipeline.ports.documents import DocumentLimits, PageImage, PageOrigin, TextLayer

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

_PLUGINS = {
    sniff.TIFF: ("TIFF", "TiffImagePlugin"),
    sniff.PNG: ("PNG", "PngImagePlugin"),
    sniff.JPEG: ("JPEG", "JpegImagePlugin"),
    sniff.JPEG_2000: ("JPEG2000", "Jpeg2KImagePlugin"),
    sniff.WEBP: ("WEBP", "WebPImagePlugin"),
    sniff.BMP: ("BMP", "BmpImagePlugin"),
    sniff.GIF: ("GIF", "GifImagePlugin"),
    sniff.PNM: ("PPM", "PpmImagePlugin"),
}
_BYTES_PER_PIXEL = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
"""What Pillow needs for a decoded pixel, by mode; 4 for all others."""
_JPEG_2000_BYTES_PER_PIXEL = 16
"""OpenJPEG decodes into 32 bits for each channel."""
_ANIMATED = frozenset({sniff.GIF, sniff.WEBP, sniff.PNG})
"""A JPEG may hold more pictures too, but those are previews and depth maps of the first."""
_ORIENTATION = 274
_SANE_DPI = (36.0, 2400.0)
_SCREEN_DPI = frozenset({72, 96})
"""What programs write that know nothing of paper."""
_WORST_ASPECT = 3.0
"""A fax in standard resolution has 204 x 98 dpi."""

# What Pillow's readers raise for files that are not what they say, seen in its source and by mutating files.
_READER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
)

_PILLOW = threading.RLock()


@contextmanager
def open_image(path: Path, media_type: str, limits: DocumentLimits) -> Iterator["PictureFile"]:
    """Open an image file. Raises: Rejected (`damaged`, `too_many_pages`, `decompression_bomb`)."""
    with path.open("rb") as opened:
        file = frugal(opened)
        yield picture_file(file, media_type, limits, pages_of(file, media_type, limits))


def picture_file(
    file: BinaryIO, media_type: str, limits: DocumentLimits, pages: TiffPages, *, before: int = 0
) -> "PictureFile":
    """Return the pages of an image file that stays open; they are counted on from those `before` it.

    Raises: Rejected (`damaged`, `decompression_bomb`).
    """
    try:
        with _guarded(limits):
            image = _opened(file, media_type)
    except _READER_ERRORS as error:
        raise _damaged(error) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Rejected(ErrorCode.DECOMPRESSION_BOMB, _too_many_pixels(limits)) from error
    return PictureFile(file, image, media_type, limits, pages, before=before)


def pages_of(file: BinaryIO, media_type: str, limits: DocumentLimits) -> TiffPages:
    """Return which pictures of a file are pages. Raises: Rejected (`damaged`, `too_many_pages`)."""
    if media_type != sniff.TIFF:
        return TiffPages(frames=(0,), is_cut_short=False)
    try:
        pages = tiff_pages(file, limits.max_pages)
    except struct.error as error:
        raise _damaged(error) from error
    if not pages.frames:
        raise _damaged("it has no complete picture")
    if len(pages.frames) > limits.max_pages:
        raise Rejected(
            ErrorCode.TOO_MANY_PAGES,
            f"The TIFF has more than the {limits.max_pages} pages allowed: split it, or raise limits.max_pages.",
        )
    return pages


def _opened(file: BinaryIO, media_type: str) -> "ImageFile":
    image_format, plugin = _PLUGINS[media_type]
    importlib.import_module(f"PIL.{plugin}")
    file.seek(0)
    return Image.open(file, formats=(image_format,))


@contextmanager
def _guarded(limits: DocumentLimits) -> Iterator[None]:
    """Hold Pillow's process-wide pixel limit and warnings to our own while it reads, and put them back."""
    with _PILLOW, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        before = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = limits.max_image_pixels
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _too_many_pixels(limits: DocumentLimits) -> str:
    return (
        f"The image declares more than the {limits.max_image_pixels} pixels that are decoded here."
        " Scale it down, or raise limits.max_image_pixels."
    )


def _damaged(cause: object) -> Rejected:
    return Rejected(
        ErrorCode.DAMAGED, f"The image is damaged ({cause}): fetch it again from its source, or scan it again."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """How a picture becomes a page."""

    width_pt: float
    height_pt: float
    dpi: float
    orientation: int


class PictureFile:
    """An image file that is open."""

    def __init__(
        self,
        file: BinaryIO,
        image: "ImageFile",
        media_type: str,
        limits: DocumentLimits,
        pages: TiffPages,
        *,
        before: int,
    ) -> None:
        self._file = file
        self._image = image
        self._limits = limits
        self._frames = pages.frames
        self._is_cut_short = pages.is_cut_short
        self._before = before
        self.media_type = media_type

    @property
    def page_count(self) -> int:
        """Return how many pages there are, one for those that are lost included."""
        return len(self._frames) + self._is_cut_short

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Return `pages_lost` where the file ends early, `first_frame_only` where it is an animation."""
        flags = []
        if self._is_cut_short:
            flags.append(Flag(name="pages_lost"))
        if self.media_type in _ANIMATED and self._has_frames():
            flags.append(Flag(name="first_frame_only"))
        return tuple(flags)

    def facts(self, number: int) -> PageFacts:
        """Return what the file says of a page; where it is the only one, it is decoded to see whether it can be."""
        return self._facts(number, decode=self.page_count == 1)

    def stated_facts(self, number: int) -> PageFacts:
        """Return what the file says of a page, which is not decoded."""
        return self._facts(number, decode=False)

    def _facts(self, number: int, *, decode: bool) -> PageFacts:
        try:
            with self._frame(number) as frame:
                size = self._size(frame)
                if decode:
                    self._decode(frame, size, size.dpi)
        except RecognitionFailed as error:
            return unreadable_page(number, error.code, self._limits)
        return PageFacts(
            number=number,
            page_class=PageClass.SCAN,
            width_pt=size.width_pt,
            height_pt=size.height_pt,
            dpi=size.dpi,
        )

    def render(self, number: int, *, dpi: float | None = None) -> PageImage:
        """Return the page's pixels, upright, on white, in square pixels."""
        from pipeline.adapters.documents.pixels import rgb_page  # noqa: PLC0415 - numpy: 150 ms

        with self._frame(number) as frame:
            size = self._size(frame)
            dpi = bounded_dpi(dpi or size.dpi, size.width_pt, size.height_pt, self._limits)
            width, height = pixels_of(size.width_pt, dpi), pixels_of(size.height_pt, dpi)
            self._decode(frame, size, dpi)
            return PageImage(number=number, pixels=rgb_page(frame, width, height, size.orientation), dpi=dpi)

    def text_layer(self, number: int) -> TextLayer:
        """Return an empty layer: pictures carry no text."""
        with self._frame(number) as frame:
            size = self._size(frame)
        width, height = pixels_of(size.width_pt, size.dpi), pixels_of(size.height_pt, size.dpi)
        return TextLayer(width_px=width, height_px=height, dpi=size.dpi, blocks=())

    def origin(self, number: int) -> PageOrigin:
        """Return the resolution of the page's picture."""
        with self._frame(number) as frame:
            return PageOrigin(scan_dpi=min(self._stated_dpi(frame)))

    @contextmanager
    def _frame(self, number: int) -> Iterator["ImageFile"]:
        index = number - 1 - self._before
        if not 0 <= index < len(self._frames):
            raise page_damaged(number, "it was lost when the file was cut short")
        try:
            with _guarded(self._limits):
                yield self._tiff_frame(index) if self.media_type == sniff.TIFF else self._afresh()
        except _READER_ERRORS as error:
            raise page_damaged(number, error) from error
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise RecognitionFailed(ErrorCode.DECOMPRESSION_BOMB, _too_many_pixels(self._limits)) from error

    def _tiff_frame(self, index: int) -> "ImageFile":
        """Return the one reader, which knows where it is in the chain, moved to a page."""
        if self._image.tell() != self._frames[index]:
            self._image.info.pop("dpi", None)
            self._image.seek(self._frames[index])
        return self._image

    def _afresh(self) -> "ImageFile":
        """Return a new reader: one that has decoded can't be asked for another scale."""
        return _opened(self._file, self.media_type)

    def _size(self, frame: "ImageFile") -> _Size:
        pixels_wide, pixels_high = frame.size
        # TiffImageFile turns its picture itself when it is loaded, and gives the size that it will have.
        orientation = 1 if self.media_type == sniff.TIFF else _orientation(frame)
        x_dpi, y_dpi = self._stated_dpi(frame)
        if _is_sideways(orientation):
            pixels_wide, pixels_high, x_dpi, y_dpi = pixels_high, pixels_wide, y_dpi, x_dpi
        width_pt, height_pt = POINTS_PER_INCH * pixels_wide / x_dpi, POINTS_PER_INCH * pixels_high / y_dpi
        check_side(width_pt, height_pt, self._limits)
        dpi = scan_dpi(max(x_dpi, y_dpi), max(width_pt, height_pt), self._limits)
        dpi = bounded_dpi(dpi, width_pt, height_pt, self._limits)
        return _Size(width_pt=width_pt, height_pt=height_pt, dpi=dpi, orientation=orientation)

    def _stated_dpi(self, frame: "ImageFile") -> tuple[float, float]:
        """Return the file's resolution where it makes sense, else the usual one."""
        usual = (self._limits.dpi, self._limits.dpi)
        try:
            x_dpi, y_dpi = map(float, frame.info["dpi"])
        except (LookupError, TypeError, ValueError, ArithmeticError):
            return usual
        lowest, highest = _SANE_DPI
        if not (lowest <= x_dpi <= highest and lowest <= y_dpi <= highest):
            return usual
        is_placeholder = {round(x_dpi), round(y_dpi)} <= _SCREEN_DPI
        is_oblong = max(x_dpi, y_dpi) > _WORST_ASPECT * min(x_dpi, y_dpi)
        longest_pt = POINTS_PER_INCH * max(frame.width / x_dpi, frame.height / y_dpi)
        if is_placeholder or is_oblong or longest_pt > self._limits.max_page_side_pt:
            return usual
        return x_dpi, y_dpi

    def _decode(self, frame: "ImageFile", size: _Size, dpi: float) -> None:
        """Load the pixels, a JPEG's at the smallest scale that is large enough, once their size has been checked."""
        check_decoded_size(frame.width, frame.height, 1, self._limits)
        if self.media_type == sniff.JPEG:
            width, height = pixels_of(size.width_pt, dpi), pixels_of(size.height_pt, dpi)
            frame.draft(None, (height, width) if _is_sideways(size.orientation) else (width, height))
        each = _JPEG_2000_BYTES_PER_PIXEL if self.media_type == sniff.JPEG_2000 else _BYTES_PER_PIXEL.get(frame.mode, 4)
        check_decoded_size(frame.width, frame.height, each, self._limits)
        frame.load()

    def _has_frames(self) -> bool:
        try:
            with _guarded(self._limits):
                return getattr(self._image, "n_frames", 1) > 1
        except _READER_ERRORS:
            return False


def _is_sideways(orientation: int) -> bool:
    return 5 <= orientation <= 8


def _orientation(frame: Image.Image) -> int:
    """Return which way up the picture is stored, 1 to 8; 1 where nothing sensible is said."""
    try:
        value = frame.getexif().get(_ORIENTATION, 1)
    except _READER_ERRORS:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1
