"""Finds the pages of a TIFF by walking its chain of directories, so that a broken one does not hide the others."""

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

_NEW_SUBFILE_TYPE = 254
_OLD_SUBFILE_TYPE = 255
_IMAGE_WIDTH = 256
_REDUCED_RESOLUTION = 1
"""Bit of tag 254, TIFF 6.0, page 36: a preview of another page, not a page."""
_OLD_REDUCED_RESOLUTION = 2
_MOST_TAGS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class TiffPages:
    """Which directories of a TIFF are pages."""

    frames: tuple[int, ...]
    """Positions in the chain, counted from 0, previews left out."""
    is_cut_short: bool
    """The chain goes on to where no directory is: at least one more page was lost."""


def tiff_pages(file: BinaryIO, most: int) -> TiffPages:
    """Return the pages, at most `most` + 1 of them; an endless chain ends where it meets itself."""
    order, is_big, offset = _header(file)
    end = file.seek(0, os.SEEK_END)
    seen: set[int] = set()
    pages: list[int] = []
    while offset and offset not in seen and len(pages) <= most:
        directory = _directory(file, order, is_big, offset, end)
        if directory is None:
            return TiffPages(frames=tuple(pages), is_cut_short=True)
        is_page, following = directory
        if is_page:
            pages.append(len(seen))
        seen.add(offset)
        offset = following
    return TiffPages(frames=tuple(pages or range(min(len(seen), most + 1))), is_cut_short=False)


def _header(file: BinaryIO) -> tuple[str, bool, int]:
    file.seek(0)
    head = file.read(16)
    order = "<" if head[:2] == b"II" else ">"
    is_big = struct.unpack(order + "H", head[2:4])[0] == 43
    (offset,) = struct.unpack(order + ("Q" if is_big else "L"), head[8:16] if is_big else head[4:8])
    return order, is_big, offset


def _directory(file: BinaryIO, order: str, is_big: bool, offset: int, end: int) -> tuple[bool, int] | None:
    """Return whether a directory is a page, and where the next is; None where there is no directory."""
    count_format, entry_size, next_format = ("Q", 20, "Q") if is_big else ("H", 12, "L")
    head_size, tail_size = struct.calcsize(order + count_format), struct.calcsize(order + next_format)
    if offset + head_size > end:
        return None
    file.seek(offset)
    (count,) = struct.unpack(order + count_format, file.read(head_size))
    if not 0 < count <= _MOST_TAGS or offset + head_size + count * entry_size + tail_size > end:
        return None
    entries = file.read(count * entry_size)
    (following,) = struct.unpack(order + next_format, file.read(tail_size))
    tags = {}
    for start in range(0, len(entries), entry_size):
        tag, kind = struct.unpack_from(order + "HH", entries, start)
        value = struct.unpack_from(order + ("H" if kind == 3 else "L"), entries, start + entry_size - tail_size)[0]
        tags[tag] = value
    if _IMAGE_WIDTH not in tags:
        return None
    is_preview = (
        tags.get(_NEW_SUBFILE_TYPE, 0) & _REDUCED_RESOLUTION or tags.get(_OLD_SUBFILE_TYPE) == _OLD_REDUCED_RESOLUTION
    )
    return not is_preview, following
