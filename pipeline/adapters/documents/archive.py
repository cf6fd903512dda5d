"""Opens a ZIP of pictures as one document: its files in the natural order of their names, each picture a page.

What is not a picture is passed over, and a flag says so, unless pages might be lost with it: an archive that holds
another one, or a document of another kind, is refused.
"""

import zipfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from pipeline.adapters.documents import sniff
from pipeline.adapters.documents.geometry import page_damaged, unreadable_page
from pipeline.adapters.documents.images import PictureFile, pages_of, picture_file
from pipeline.adapters.documents.tiff import TiffPages
from pipeline.adapters.documents.zip_files import ZipFiles, open_zip, shown
from pipeline.adapters.documents.zip_names import name_of
from pipeline.domain.document import PageFacts
from pipeline.domain.errors import ErrorCode, PipelineError, RecognitionFailed, Rejected
from pipeline.domain.password import Password
from pipeline.domain.recognition import Flag
from pipeline.ports.documents import DocumentLimits, PageImage, PageOrigin, TextLayer

_PICTURE_NAMES = frozenset(
    ".tif .tiff .jpg .jpeg .jpe .jp2 .j2k .jpf .jpx .png .webp .bmp .gif .pnm .pbm .pgm .ppm .pam".split()  # noqa: SIM905
)

_OFTEN_ANIMATED = frozenset({sniff.GIF, sniff.WEBP})
"""PNG may be as well, but archives of thousands of them are common, and it takes a look at each file to know."""


@contextmanager
def open_archive(path: Path, limits: DocumentLimits, password: Password | None) -> Iterator["PictureArchive"]:
    """Open a ZIP; of each file its beginning is read, of TIFFs all.

    Raises: Rejected (`damaged`, `password_required`, `password_wrong`, `unsupported_type`, `not_a_document`,
    `zero_pages`, `too_many_pages`, `decompression_bomb`).
    """
    with open_zip(path, limits, password) as files:
        pictures = _pictures(files, limits)
        passed_over = len(files.entries) - len(pictures)
        with closing(PictureArchive(files, pictures, limits, passed_over=passed_over)) as opened:
            yield opened


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """A file of the archive that is, or should be, a picture."""

    entry: zipfile.ZipInfo
    media_type: str | None
    """None where its name promises a picture and it is none: what was to be that page has been lost."""
    pages: TiffPages
    before: int
    """Pages of the document before its first."""

    @property
    def page_count(self) -> int:
        return len(self.pages.frames) + self.pages.is_cut_short


_ONE_PAGE = TiffPages(frames=(0,), is_cut_short=False)


def _pictures(files: ZipFiles, limits: DocumentLimits) -> list[_Picture]:
    pictures: list[_Picture] = []
    count = 0
    for entry in files.entries:
        if (picture := _picture(files, entry, count, limits)) is None:
            continue
        pictures.append(picture)
        count += picture.page_count
        if count > limits.max_pages:
            raise Rejected(
                ErrorCode.TOO_MANY_PAGES,
                f"The ZIP has more than the {limits.max_pages} pages allowed: split it, or raise limits.max_pages.",
            )
    if pictures:
        return pictures
    if files.entries:
        raise Rejected(ErrorCode.NOT_A_DOCUMENT, "The ZIP holds no picture: pack scans, or send its files one by one.")
    raise Rejected(ErrorCode.ZERO_PAGES, "The ZIP is empty: pack it again from its source.")


def _picture(files: ZipFiles, entry: zipfile.ZipInfo, before: int, limits: DocumentLimits) -> _Picture | None:
    """Return the entry as a picture; None where it may be passed over."""
    media_type, pages = _media_type(files, entry), _ONE_PAGE
    if media_type is None and PurePosixPath(entry.filename).suffix.casefold() not in _PICTURE_NAMES:
        return None
    if media_type == sniff.TIFF:
        pages = _tiff_pages(files, entry, limits)
    return _Picture(entry=entry, media_type=media_type, pages=pages, before=before)


def _media_type(files: ZipFiles, entry: zipfile.ZipInfo) -> str | None:
    """Return what kind of picture an entry is, or None. Raises: Rejected, where it may hold pages of its own."""
    try:
        with files.open(entry) as file:
            head = file.read(sniff.HEAD_BYTES)
    except RecognitionFailed:
        return None
    try:
        media_type = sniff.media_type_of(head)
    except Rejected as error:
        if sniff.may_accompany(head):
            return None
        raise Rejected(error.code, f"In the ZIP, {shown(entry)}: {error.message}") from error
    if media_type in (sniff.PDF, sniff.ZIP):
        raise Rejected(
            ErrorCode.UNSUPPORTED_TYPE,
            f"The ZIP holds an archive or document of its own, {shown(entry)}: send that by itself; only pictures are"
            " bound into one document.",
        )
    return media_type


def _tiff_pages(files: ZipFiles, entry: zipfile.ZipInfo, limits: DocumentLimits) -> TiffPages:
    try:
        with files.unpacked(entry) as file:
            return pages_of(file, sniff.TIFF, limits)
    except PipelineError as error:
        if error.code is ErrorCode.TOO_MANY_PAGES:
            raise
        return _ONE_PAGE


class PictureArchive:
    """An archive of pictures that is open."""

    media_type = sniff.ZIP

    def __init__(
        self, files: ZipFiles, pictures: Sequence[_Picture], limits: DocumentLimits, *, passed_over: int
    ) -> None:
        self._files = files
        self._pictures = pictures
        self._limits = limits
        self._passed_over = passed_over
        self._firsts = [picture.before + 1 for picture in pictures]
        self._unpacked: tuple[_Picture, PictureFile] | None = None
        self._open = ExitStack()

    @property
    def page_count(self) -> int:
        """Return how many pages the pictures have together."""
        return self._pictures[-1].before + self._pictures[-1].page_count

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Return `files_passed_over` where not all were pictures, `pages_lost` where TIFFs end early, with shares.

        And `first_frame_only` where one is an animation.
        """
        flags = []
        if self._passed_over:
            flags.append(Flag(name="files_passed_over", score=self._passed_over / self._all_files))
        if lost := sum(picture.pages.is_cut_short for picture in self._pictures):
            flags.append(Flag(name="pages_lost", score=lost / self.page_count))
        if any(map(self._is_animated, self._pictures)):
            flags.append(Flag(name="first_frame_only"))
        return tuple(flags)

    def _is_animated(self, picture: _Picture) -> bool:
        if picture.media_type not in _OFTEN_ANIMATED:
            return False
        try:
            with self._files.open(picture.entry) as file:
                return bool(self._opened(picture, file).flags)
        except PipelineError:
            return False

    @property
    def _all_files(self) -> int:
        return self._passed_over + len(self._pictures)

    def facts(self, number: int) -> PageFacts:
        """Return what the file of a page says of it; nothing is decoded."""
        try:
            with self._page(number, decodes=False) as picture:
                facts = picture.stated_facts(number)
        except RecognitionFailed as error:
            facts = unreadable_page(number, error.code, self._limits)
        return replace(facts, source_file=name_of(self._picture_of(number).entry))

    def render(self, number: int, *, dpi: float | None = None) -> PageImage:
        """Return the page's pixels, as of a file by itself."""
        with self._page(number, decodes=True) as picture:
            return picture.render(number, dpi=dpi)

    def text_layer(self, number: int) -> TextLayer:
        """Return an empty layer: pictures carry no text."""
        with self._page(number, decodes=False) as picture:
            return picture.text_layer(number)

    def origin(self, number: int) -> PageOrigin:
        """Return the resolution of the page's picture."""
        with self._page(number, decodes=False) as picture:
            return picture.origin(number)

    def close(self) -> None:
        """Forget what is unpacked."""
        self._unpacked = None
        self._open.close()

    @contextmanager
    def _page(self, number: int, *, decodes: bool) -> Iterator[PictureFile]:
        """Yield the file that has the page. Raises: RecognitionFailed, naming the file."""
        if not 1 <= number <= self.page_count:
            raise page_damaged(number, "there is no such page")
        picture = self._picture_of(number)
        try:
            if decodes or picture.media_type == sniff.TIFF:
                yield self._unpack(picture)
            else:
                with self._files.open(picture.entry) as file:
                    yield self._opened(picture, file)
        except PipelineError as error:
            code = ErrorCode.PAGE_DAMAGED if error.code is ErrorCode.DAMAGED else error.code
            raise RecognitionFailed(code, f"{shown(picture.entry)}: {error.message}") from error

    def _picture_of(self, number: int) -> _Picture:
        return self._pictures[bisect_right(self._firsts, number) - 1]

    def _unpack(self, picture: _Picture) -> PictureFile:
        """Return a picture over an unpacked copy of its file, which is kept until another one is asked for."""
        if self._unpacked is None or self._unpacked[0] is not picture:
            self.close()
            file = self._open.enter_context(self._files.unpacked(picture.entry))
            self._unpacked = picture, self._opened(picture, file)
        return self._unpacked[1]

    def _opened(self, picture: _Picture, file: BinaryIO) -> PictureFile:
        if picture.media_type is None:
            raise RecognitionFailed(ErrorCode.PAGE_DAMAGED, "It is no picture: fetch it again from its source.")
        return picture_file(file, picture.media_type, self._limits, picture.pages, before=picture.before)
