"""What is kept of a document after its job has ended, and for how long; by its key, what each object belongs to."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Kept(StrEnum):
    """What has an age of its own, in the order in which it is looked at."""

    ORIGINALS = "originals"
    """The file as it was handed in; one object for all jobs with the same bytes."""
    PAGE_IMAGES = "page_images"
    """Pages rendered ahead, or for somebody who looked; made again where they are wanted."""
    SEGMENTS = "segments"
    """Finished pages as chunks stored them; a retry of failed pages needs them."""
    RESULTS = "results"
    """The bound pages and the outputs."""
    ROWS = "rows"
    """Job, chunks and pages in the database, and with them all that is left of the job in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How long after a job's end each is kept; None is for ever."""

    originals: timedelta | None = None
    page_images: timedelta | None = None
    segments: timedelta | None = None
    results: timedelta | None = None
    rows: timedelta | None = None

    def of(self, what: Kept) -> timedelta | None:
        """Return one of them."""
        age: timedelta | None = getattr(self, what)
        return age


def belongs_to(key: str) -> Kept:
    """Return what an object of one job alone, `jobs/<job>/...`, is part of; what is not known goes with the rows."""
    match key.split("/")[2:]:
        case ["chunks", _, "pages", *_] | ["images", *_]:
            return Kept.PAGE_IMAGES
        case ["chunks", *_]:
            return Kept.SEGMENTS
        case ["document" | "results", *_]:
            return Kept.RESULTS
        case _:
            return Kept.ROWS
