"""How a document is cut into the parts that it comes in."""

from dataclasses import dataclass

PART_BYTES = 8 * 1024**2
"""S3 wants at least 5 MiB of every part but the last."""
MAX_PARTS = 10_000
"""S3 takes no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where the parts begin and end; they are counted from 1, and all but the last have the same size."""

    size_bytes: int
    part_bytes: int

    @property
    def parts(self) -> int:
        """Return how many there are."""
        return -(-self.size_bytes // self.part_bytes)

    def bytes_of(self, number: int) -> int:
        """Return how many bytes a part has. Raises: ValueError, if there is no such part."""
        if not 1 <= number <= self.parts:
            raise ValueError(f"there are parts 1 to {self.parts}, no {number}")
        return min(self.part_bytes, self.size_bytes - (number - 1) * self.part_bytes)


def cut(size_bytes: int) -> Cut:
    """Return how a document of this size is cut. Raises: ValueError, if it has no bytes."""
    if size_bytes < 1:
        raise ValueError("a document has at least one byte")
    return Cut(size_bytes=size_bytes, part_bytes=max(PART_BYTES, -(-size_bytes // MAX_PARTS)))
