"""The files in a ZIP, in order, within bounds: what an archive says of itself is checked before anything is unpacked.

Names order the files and are shown to people; they are never used as paths.
"""

import errno
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from pipeline.adapters.documents import protection, sniff
from pipeline.adapters.documents.frugal import frugal
from pipeline.adapters.documents.natural_order import natural_key
from pipeline.adapters.documents.zip_names import name_of
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Rejected
from pipeline.domain.password import Password
from pipeline.ports.documents import DocumentLimits

_FILES_FOR_A_PAGE = 4
"""A picture, its description, its text and its checksum; with more than these for each page allowed it is too long."""
_MOST_RATIO = 200
_SMALL_BYTES = 64 * 1024**2
"""Below, no ratio is too high: empty pages without compression of their own shrink a thousandfold."""
_ENCRYPTED, _AES = 0x1, 99
"""Bit of the general purpose flags, and compression method; APPNOTE 6.3.10, 4.4.4 and 4.4.5."""
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2})
"""Those whose memory is bounded: LZMA takes what the archive says."""
_PIECE_BYTES = 1024**2
_SHOWN = 80

_HOUSEKEEPING = frozenset({"thumbs.db", "desktop.ini", "__macosx"})

_CONTAINERS = {
    "[Content_Types].xml": ("an Office document", "export it as PDF"),
    "OFD.xml": (sniff.OFD_DOCUMENT, sniff.OFD_REMEDY),
    "mimetype": ("an OpenDocument or EPUB file", "export it as PDF"),
    "META-INF/MANIFEST.MF": ("a program", "send the documents that it is about"),
}
"""Files by which a ZIP is known to be something else, wherever among the others they stand."""

# What zipfile raises for archives that are not what they say, seen in its source and by mutating archives.
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    LookupError,
    ArithmeticError,
    struct.error,
)

_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""What is no fault of the archive that is unpacked."""


@contextmanager
def open_zip(path: Path, limits: DocumentLimits, password: Password | None) -> Iterator["ZipFiles"]:
    """Open a ZIP, having read its directory alone.

    Raises: Rejected (`damaged`, `password_required`, `password_wrong`, `unsupported_type`, `too_many_pages`,
    `decompression_bomb`).
    """
    try:
        archive = zipfile.ZipFile(path)
    except _ARCHIVE_ERRORS as error:
        raise Rejected(ErrorCode.DAMAGED, f"The ZIP is damaged ({error}): fetch it again from its source.") from error
    with archive:
        files = ZipFiles(archive, _wanted(archive.infolist(), limits), password)
        files.check()
        yield files


def _wanted(entries: Sequence[zipfile.ZipInfo], limits: DocumentLimits) -> list[zipfile.ZipInfo]:
    """Return the files that people put there, in order, once their number and sizes have been checked."""
    for entry in entries:
        if entry.filename in _CONTAINERS:
            raise _something_else(*_CONTAINERS[entry.filename])
    most = _FILES_FOR_A_PAGE * limits.max_pages
    if len(entries) > most:
        raise Rejected(
            ErrorCode.TOO_MANY_PAGES,
            f"The ZIP has {len(entries)} files, {most} are allowed: split it, or raise limits.max_pages.",
        )
    _check_size(entries, limits)
    wanted = [entry for entry in entries if not entry.is_dir() and not _is_housekeeping(entry.filename)]
    return sorted(wanted, key=lambda entry: natural_key(entry.filename))


def _check_size(entries: Sequence[zipfile.ZipInfo], limits: DocumentLimits) -> None:
    # zipfile reads no more of a file than its entry says, so these are bounds even where entries lie.
    unpacked, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
    if unpacked > limits.max_unpacked_bytes:
        raise Rejected(
            ErrorCode.DECOMPRESSION_BOMB,
            f"The ZIP says that it has {unpacked} bytes unpacked, {limits.max_unpacked_bytes} are allowed: split it,"
            " or raise limits.max_unpacked_bytes.",
        )
    if unpacked > max(_SMALL_BYTES, _MOST_RATIO * packed):
        raise Rejected(
            ErrorCode.DECOMPRESSION_BOMB,
            f"The ZIP says that its {packed} bytes become {unpacked}, which no pictures do: pack them again.",
        )


def _is_housekeeping(name: str) -> bool:
    parts = [part for part in PurePosixPath(name).parts if part != ".."]
    return any(part.startswith(".") or part.casefold() in _HOUSEKEEPING for part in parts)


class ZipFiles:
    """The files of an archive that is open; system files and folders are left out."""

    def __init__(self, archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo], password: Password | None) -> None:
        self._archive = archive
        self._password = password
        self.entries = entries
        """In the natural order of their names."""

    def check(self) -> None:
        """Make sure that they can be unpacked. Raises: Rejected."""
        for entry in self.entries:
            if entry.compress_type == _AES:
                raise _refused_packing(entry, "encrypted with AES: unpack it and send its files")
            if entry.compress_type not in _METHODS:
                raise _refused_packing(entry, "packed in an unusual way: pack it again, with Deflate")
        encrypted = [entry for entry in self.entries if entry.flag_bits & _ENCRYPTED]
        if encrypted and self._password is None:
            raise protection.refused("ZIP", None)
        if encrypted:
            self._try_password(min(encrypted, key=lambda entry: entry.file_size))

    def _try_password(self, entry: zipfile.ZipInfo) -> None:
        """Read a file to its end: one in 256 wrong passwords is noticed by the checksum alone."""
        try:
            with self.open(entry) as file:
                while file.read(_PIECE_BYTES):
                    pass
        except RecognitionFailed as error:
            raise protection.refused("ZIP", self._password) from error

    @contextmanager
    def open(self, entry: zipfile.ZipInfo) -> Iterator[BinaryIO]:
        """Yield a file as a stream, which can be read and sought. Raises: RecognitionFailed (`page_damaged`)."""
        password = self._password.reveal.encode() if self._password else None
        try:
            with self._archive.open(entry, pwd=password) as file:
                yield cast("BinaryIO", file)
        except _ARCHIVE_ERRORS as error:
            if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
                raise
            raise RecognitionFailed(ErrorCode.PAGE_DAMAGED, f"It can't be unpacked: {error}.") from error

    @contextmanager
    def unpacked(self, entry: zipfile.ZipInfo) -> Iterator[BinaryIO]:
        """Yield a file unpacked into a temporary one without a name. Raises: RecognitionFailed (`page_damaged`)."""
        with tempfile.TemporaryFile(prefix="muniment-") as copy:
            with self.open(entry) as file:
                shutil.copyfileobj(file, copy, _PIECE_BYTES)
            copy.seek(0)
            yield frugal(cast("BinaryIO", copy))


def shown(entry: zipfile.ZipInfo) -> str:
    """Return an entry's name as it may stand in a message."""
    name = name_of(entry) or "a file without a name"
    return name if len(name) <= _SHOWN else f"...{name[-_SHOWN:]}"


def _something_else(what: str, remedy: str) -> Rejected:
    return Rejected(ErrorCode.UNSUPPORTED_TYPE, f"The file looks like {what}, which is not read here: {remedy}.")


def _refused_packing(entry: zipfile.ZipInfo, what: str) -> Rejected:
    return Rejected(ErrorCode.UNSUPPORTED_TYPE, f"In the ZIP, {shown(entry)} is {what}.")
