"""The second reader of PDFs, qpdf: it counts pages by itself, and rewrites what the first one can't open, once."""

import mmap
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
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

_READER_ERRORS = (RuntimeError, ValueError, ArithmeticError)
"""What pikepdf raises besides errors of its own."""

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


def walked_page_count(path: Path, password: Password | None, most: int) -> int | None:
    """Return how many pages the page tree holds, those that are missing from the file included; None where it is none.

    Nobody counts further than a little beyond `most`.
    """
    import pikepdf  # noqa: PLC0415 - 150 ms, and not before the limits of a child are set

    try:
        with _opened(path, password) as pdf:
            return _leaves(pdf, most) or None
    except (pikepdf.PdfError, pikepdf.PasswordError, *_READER_ERRORS, LookupError, AttributeError, TypeError):
        return None


def _leaves(pdf: "pikepdf.Pdf", most: int) -> int:
    """Count what the tree's nodes refer to as pages. Raises: ValueError, if it comes back to itself."""
    import pikepdf  # noqa: PLC0415 - as above

    count, waiting, seen = 0, [pdf.Root.Pages], set()
    while waiting and count <= most:
        node = waiting.pop()
        kids = node.get("/Kids") if isinstance(node, pikepdf.Dictionary) else None
        if not isinstance(kids, pikepdf.Array):
            count += 1
            continue
        if node.objgen in seen:
            raise ValueError("the page tree is a loop")
        seen.add(node.objgen)
        waiting.extend(islice(kids, most + 1))
    return count


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
    except (pikepdf.PdfError, pikepdf.DataDecodingError, *_READER_ERRORS) as error:
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
    """Open with qpdf, which takes passwords as bytes, and warns of one that is not needed.

    Source: ISO 32000-2, 7.6.4.3: UTF-8 from revision 6 on, before that PDFDocEncoding.
    """
    import pikepdf  # noqa: PLC0415 - as above

    given = password.reveal if password else ""
    # Attributes are not handed down: that would mend the tree, and pages missing from the file were not seen to be.
    open_as_it_is = partial(pikepdf.open, path, inherit_page_attributes=False)
    for form in (b"", given.encode()):
        with suppress(pikepdf.PasswordError):
            return open_as_it_is(password=form)
    return open_as_it_is(password=given.encode("pdfdoc", errors="replace"))


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
