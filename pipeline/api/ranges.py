"""Range requests (RFC 9110, section 14)."""

import re
from dataclasses import dataclass

from pipeline.api.problems import ApiCode, Problem

_ONE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Bytes first to last of something, both included, counted from 0."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """Count its bytes."""
        return self.last - self.first + 1

    def header(self, size: int) -> str:
        """Return what `Content-Range` says of it."""
        return f"bytes {self.first}-{self.last}/{size}"


def parse_range(header: str, size: int) -> Range | None:
    """Return the part of `size` bytes that is asked for; None where all of it is to be sent.

    Units that we don't know and lists of ranges are passed over, as a server may. Raises: Problem (416), if the range
    lies outside.
    """
    found = _ONE_RANGE.fullmatch(header.strip())
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        length = min(int(found[2]), size)
        first, last = size - length, size - 1
    else:
        first, last = int(found[1]), min(int(found[2]), size - 1) if found[2] else size - 1
        if found[2] and int(found[2]) < int(found[1]):
            return None
    if first > last:
        raise Problem(
            416,
            ApiCode.RANGE_NOT_SATISFIABLE,
            f"there are {size} bytes",
            headers={"Content-Range": f"bytes */{size}"},
        )
    return Range(first=first, last=last)
