"""Rewrites a damaged PDF once, so that the reader can open it, and says how many pages it once had."""

import mmap
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from pipeline.adapters.documents import protection
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.password import Password

if TYPE_CHECKING:
    import pikepdf

_GROWTH = 2
_SLACK_BYTES = 16 * 1024**2
"""A repaired copy may be this many times larger than the original, plus this much: streams are copied as they are."""

_PAGE_TREE = re.compile(rb"/Type\s*/Pages\b")
_COUNT = re.compile(rb"/Count\s+(\d{1,9})\b")
_WIDEST_OBJECT_BYTES = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedPdf:
    """A readable copy of what could be saved."""

    path: Path
    stated_pages: int
    """The number that the damaged file gave for itself, 0 where it gives none; more may be stated than were saved."""


@contextmanager
def repaired(path: Path, password: Password | None = None) -> Iterator[RepairedPdf]:
    """Yield a repaired copy in a bounded temporary file, which is gone afterwards; it needs no password.

    Raises: Rejected (`damaged`, `password_required`, `password_wrong`, `zero_pages`, `unsupported_type`).
    """
    limit = path.stat().st_size * _GROWTH + _SLACK_BYTES
    with tempfile.NamedTemporaryFile(prefix="muniment-", suffix=".pdf") as copy:
        _rewrite(path, password, _BoundedWriter(copy, limit))
        copy.flush()
        yield RepairedPdf(path=Path(copy.name), stated_pages=_stated_pages(path))


def _rewrite(path: Path, password: Password | None, target: "_BoundedWriter") -> None:
    import pikepdf  # noqa: PLC0415 - 100 ms that only damaged files cost

    try:
        with _opened(path, password) as pdf:
            if not len(pdf.pages):
                raise Rejected(ErrorCode.ZERO_PAGES, "The PDF has no pages: export it again from its source.")
            pdf.save(
                cast("BinaryIO", target), stream_decode_level=pikepdf.StreamDecodeLevel.none, fix_metadata_version=False
            )
    except pikepdf.PasswordError as error:
        raise protection.refused("PDF", password) from error
    except (pikepdf.PdfError, pikepdf.DataDecodingError, RuntimeError, ValueError, ArithmeticError) as error:
        if "unsupported encryption" in str(error):
            raise Rejected(
                ErrorCode.UNSUPPORTED_TYPE,
                "The PDF is encrypted in a way that is not supported, for instance to a certificate:"
                " save a copy without encryption, and send that.",
            ) from error
        raise Rejected(
            ErrorCode.DAMAGED,
            "The PDF is damaged and could not be repaired: fetch it again from its source, or scan it again.",
        ) from error


def _opened(path: Path, password: Password | None) -> "pikepdf.Pdf":
    """Open with qpdf, which takes passwords as bytes; whose they are is for the caller to try.

    Source: ISO 32000-2, 7.6.4.3: UTF-8 from revision 6 on, before that PDFDocEncoding.
    """
    import pikepdf  # noqa: PLC0415 - as above

    given = password.reveal if password else ""
    try:
        return pikepdf.open(path, password=given)
    except pikepdf.PasswordError:
        if given.isascii():
            raise
        return pikepdf.open(path, password=given.encode("pdfdoc", errors="replace"))


def _stated_pages(path: Path) -> int:
    """Return the largest page count that any page tree in the raw bytes gives; compressed objects are not seen."""
    most = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        for found in _PAGE_TREE.finditer(raw):
            first = max(raw.rfind(b" obj", max(0, found.start() - _WIDEST_OBJECT_BYTES), found.start()), 0)
            end = raw.find(b"endobj", found.end(), found.end() + _WIDEST_OBJECT_BYTES)
            if end > 0 and (count := _COUNT.search(raw, first, end)):
                most = max(most, int(count[1]))
    return most


class _BoundedWriter:
    """Passes on what is written until it is too much."""

    def __init__(self, target: IO[bytes], limit: int) -> None:
        self._target = target
        self._limit = limit

    def write(self, piece: bytes) -> int:
        if self._target.tell() + len(piece) > self._limit:
            raise ValueError(f"the repaired copy is over {self._limit} bytes")
        return self._target.write(piece)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._target.seek(offset, whence)

    def tell(self) -> int:
        return self._target.tell()

    def read(self, size: int = -1) -> bytes:
        return self._target.read(size)

    def flush(self) -> None:
        self._target.flush()
