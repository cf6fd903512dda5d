"""What opens, looks at and renders documents."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pipeline.domain.document import PageFacts
from pipeline.domain.password import Password
from pipeline.domain.recognition import Block, Flag

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Quoted, because importing numpy costs 150 ms that the command line and the readers' child process need not pay.
Pixels: TypeAlias = "npt.NDArray[np.uint8]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLimits:
    """Bounds on what is opened and rendered; over one of them is a typed refusal."""

    max_pages: int
    max_page_side_pt: float
    """Longest side of a page box, 1/72 inch."""
    max_image_pixels: int
    """Declared pixels of an image file's page, or of an image inside a PDF that has to be decoded."""
    max_render_pixels: int
    """A page is rendered at a lower resolution rather than above this."""
    max_unpacked_bytes: int
    """All files of an archive together, as they would be on disk."""
    dpi: float
    """What a page is rendered at when nothing speaks against it."""
    finest_scan_dpi: float
    """What finer scans are rendered at."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageImage:
    """A rendered page."""

    number: int
    pixels: Pixels
    """(height, width, 3), uint8, RGB, white where the page is transparent; C-contiguous, owned by the receiver."""
    dpi: float

    @property
    def width_px(self) -> int:
        """Return the width in pixels."""
        return int(self.pixels.shape[1])

    @property
    def height_px(self) -> int:
        """Return the height in pixels."""
        return int(self.pixels.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayer:
    """A page's own text, placed on the page as it would be rendered at `dpi`."""

    width_px: int
    height_px: int
    dpi: float
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOrigin:
    """What a file says of a page that its pixels no longer show."""

    scan_dpi: float | None = None
    """The resolution of the scan that the page is, where it lies within one; it may be rendered at another."""
    layer_doubt: float | None = None
    """How bad the text is that the file has for it, 0.5 to 1, where it is too bad to be used."""


class OpenDocument(Protocol):
    """A document that has been opened; not safe to share between threads, never kept across a fork."""

    @property
    def media_type(self) -> str:
        """Return the type by content, e.g. `application/pdf`."""

    @property
    def page_count(self) -> int:
        """Return how many pages there are, at least 1."""

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Return what had to be done to open it, e.g. `repaired`."""

    def facts(self, number: int) -> PageFacts:
        """Return what the file says of a page, cheaply; a page that can't be loaded is `unreadable`, not an error."""

    def render(self, number: int, *, dpi: float | None = None) -> PageImage:
        """Return the page's pixels, upright as a reader would show it, at the resolution of its facts or at `dpi`.

        Raises: RecognitionFailed (`page_damaged`, `page_too_large`, `decompression_bomb`), for this page alone.
        """

    def text_layer(self, number: int) -> TextLayer:
        """Return the page's own text in reading order. Raises: RecognitionFailed (`page_damaged`)."""

    def origin(self, number: int) -> PageOrigin:
        """Return where the page's pixels come from, cheaply. Raises: RecognitionFailed (`page_damaged`)."""


class DocumentOpener(Protocol):
    """Opens files by what is in them; names and extensions are never asked."""

    def open(self, path: Path, *, password: Password | None = None) -> AbstractContextManager[OpenDocument]:
        """Open a file, which need not be protected to be given a password.

        Raises: Rejected, with one of the document's codes.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a document says of itself, gathered without rendering it."""

    media_type: str
    page_count: int
    flags: tuple[Flag, ...]
    facts: tuple[PageFacts, ...]
    """One for each page, in order."""


class DocumentInspector(Protocol):
    """Looks at documents that nobody has looked at yet, so that a hostile one harms no worker."""

    def inspect(self, path: Path, password: Password | None = None) -> Inspection:
        """Return what a file holds, at least one readable page. Raises: Rejected, with one of the document's codes."""
