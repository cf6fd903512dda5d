"""Pages that somebody should look at: those with flags, the worst first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from pipeline.domain.document import JobId
from pipeline.domain.recognition import Flag, PageOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a list of flagged pages was left off: behind this page."""

    doubt: float
    job_id: JobId
    number: int

    def __str__(self) -> str:
        return f"{self.doubt!r}_{self.job_id}_{self.number}"

    @classmethod
    def parse(cls, text: str) -> "Place":
        """Return the place that was written so. Raises: ValueError, if it is none."""
        doubt, job_id, number = text.split("_")
        place = cls(doubt=float(doubt), job_id=JobId(UUID(job_id)), number=int(number))
        if not 0 <= place.doubt <= 1 or not 0 < place.number < 2**31:
            raise ValueError(f"no page lies at {text}")
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFilter:
    """Which flagged pages are meant; what is not given does not matter."""

    tenant: str | None = None
    job_id: JobId | None = None
    label: str | None = None
    flag: str | None = None
    """Only pages with this one, by its score."""
    min_doubt: float = 0.0
    since: datetime | None = None
    """Only of jobs submitted then or later."""
    after: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlaggedPage:
    """A page with what speaks against it."""

    job_id: JobId
    tenant: str
    label: str | None
    source_name: str
    number: int
    source_file: str | None
    """The file of an archive that it comes from."""
    outcome: PageOutcome
    confidence: float | None
    flags: tuple[Flag, ...]
    doubt: float
    """The score of the flag asked for, else the highest; 0.5 for a flag that has none."""

    @property
    def place(self) -> Place:
        """Return where a list that ends with this page goes on."""
        return Place(doubt=self.doubt, job_id=self.job_id, number=self.number)


class Review(Protocol):
    """Lists flagged pages."""

    def pages(self, limit: int, wanted: ReviewFilter) -> list[FlaggedPage]:
        """Return the worst first; of those as bad, the pages of the newest jobs first, in order."""
