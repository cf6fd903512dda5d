"""Jobs that are taken away."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from pipeline.domain.document import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A job whose rows are gone, and where its content lies."""

    job_id: JobId
    upload_key: str | None
    sha256: str | None


class Removals(Protocol):
    """The rows of jobs, to be taken away."""

    def remove(self, job_id: JobId) -> Removed | None:
        """Remove an ended job with its pages and chunks; None where it is not there, or has not ended."""

    def left(self, older_than: timedelta) -> list[Removed]:
        """Return what was removed that long ago and is not forgotten."""

    def forget(self, job_id: JobId) -> None:
        """Write off a removal."""

    def unused(self, sha256: str) -> AbstractContextManager[bool]:
        """Say whether no job has the original of this content, and keep it so until the end."""
