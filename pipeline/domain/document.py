"""A document's parts: page, page range, chunk, and what is known of them before anything is recognised.

Pages are numbered from 1 everywhere, in rows, code and output alike; there is no second base.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType
from uuid import UUID, uuid5

JobId = NewType("JobId", UUID)
ChunkId = NewType("ChunkId", UUID)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PageRange:
    """Pages first to last, both included, counted from 1; never empty."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first < 1 or self.last < self.first:
            raise ValueError(f"no page range: {self.first} to {self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


class Lane(StrEnum):
    """The kind of device a chunk waits for; also the name of its queue."""

    CPU = "cpu"
    GPU = "gpu"

    @property
    def renders_ahead(self) -> bool:
        """Whether pages are rendered on a queue of their own first, so that the device never waits for it."""
        return self is Lane.GPU


class PageClass(StrEnum):
    """How a page will get its text, judged before it is rendered."""

    TEXT_LAYER = "text_layer"
    """The file carries text that can be trusted."""
    SCAN = "scan"
    """The page has to be rendered and recognised."""
    MIXED = "mixed"
    """A trusted text layer and a picture large enough to hold more text: both are read."""
    BLANK = "blank"
    """The page draws nothing at all."""
    UNREADABLE = "unreadable"
    """The page can't be loaded; it will end as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts:
    """What the file says of one page, without rendering it."""

    number: int
    page_class: PageClass
    width_pt: float
    """As shown, /Rotate applied, 1/72 inch."""
    height_pt: float
    dpi: float
    """The resolution it will be rendered at, within the limits."""
    error_code: str | None = None
    """Why it is unreadable."""
    has_poor_layer: bool = False
    """It is to be recognised though it has the text of an earlier recogniser, as that made too many mistakes."""
    source_file: str | None = None
    """The file of an archive that it comes from: one line, bounded, fit to be shown and never to be opened."""

    @property
    def megapixels(self) -> float:
        """Return the size of the rendered page in millions of pixels."""
        return self.width_pt * self.height_pt * (self.dpi / 72) ** 2 / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChunk:
    """A page range that one device will take at once."""

    ordinal: int
    pages: PageRange
    lane: Lane
    cost_ms: int
    """Estimated time on one CPU slot, milliseconds."""


def chunk_id(job: JobId, ordinal: int, pages: PageRange) -> ChunkId:
    """Return the id that this chunk always has, so that planning twice writes the same rows."""
    return ChunkId(uuid5(job, f"chunk {ordinal} pages {pages}"))
