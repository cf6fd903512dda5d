"""Files that say themselves how long their pieces are, read by readers that believe them."""

import os
from typing import Any, BinaryIO, cast


class _Frugal:
    """A file of which a read takes no more memory than is left of it: Python makes room first for all of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._length = os.fstat(file.fileno()).st_size

    def read(self, size: int = -1) -> bytes:
        """Read at most so many bytes, all that are left if negative."""
        return self._file.read(min(size, max(0, self._length - self._file.tell())))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def frugal(file: BinaryIO) -> BinaryIO:
    """Return a file on the disk as one that can be given to Pillow, which reads a PNG's chunk of 4 GB if it has one."""
    return cast("BinaryIO", _Frugal(file))
