"""What may be let go of: jobs that have ended and whose time is over."""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pipeline.domain.document import JobId
from pipeline.domain.retention import Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Something of a job that has been kept long enough."""

    job_id: JobId
    tenant: str
    what: Kept
    finished_at: datetime
    sha256: str | None
    """The original, if that is to go and the job still holds on to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What went, for the trail."""

    objects: int
    size_bytes: int


class Hold(Protocol):
    """An expired job that nobody else touches, not even to begin it again, until the context ends."""

    @property
    def original_is_free(self) -> bool:
        """Whether no other job holds on to the same original; no other can take it up meanwhile."""

    def done(self, removed: Removed) -> None:
        """Write down that it is gone, with an event; rows go now. Without this call nothing is changed."""


class Retention(Protocol):
    """The rows of what expires."""

    def expired(self, what: Kept, at_most: int) -> list[Expired]:
        """Return what is due, of each tenant what ended first."""

    def all_expired(self, what: Kept) -> Iterator[Expired]:
        """Yield all that is due and lock nothing: for those who only want to know."""

    def still_held(self, originals: Collection[str]) -> set[str]:
        """Return those of the originals that would be held when all that is due were gone."""

    def holding(self, expired: Expired) -> AbstractContextManager[Hold | None]:
        """Hold what is due; None where it no longer is, or somebody else holds it."""

    def wanted(self, upload_keys: Collection[str]) -> set[str]:
        """Return those of the uploads that a job which has not ended still names."""

    def forget_devices(self) -> int:
        """Remove the rows of devices that nobody has heard of for the age of devices; return how many."""

    def forget_known_pages(self) -> int:
        """Forget what some pages look like that were read longer ago than their age; return how many."""
