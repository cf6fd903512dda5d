"""What people may ask of jobs that are there already: to stop, to wait, to go earlier, to be begun again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from pipeline.domain.document import ChunkId, JobId
from pipeline.domain.password import Password
from pipeline.domain.retention import Ages, Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Whom it concerns: jobs by their ids, all open jobs under a tenant's label, or all open jobs of a tenant."""

    job_ids: tuple[JobId, ...] = ()
    tenant: str = "default"
    label: str | None = None

    def __post_init__(self) -> None:
        if self.job_ids and self.label:
            raise ValueError("jobs are named by their ids or by a label, not by both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be otherwise from now on; None leaves it as it is."""

    paused: bool | None = None
    priority: int | None = None
    deadline: datetime | None = None
    hours: str | None = None
    """`20:00-06:00`, `20:00-06:00 Asia/Shanghai`, or `any`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """How ended jobs are begun again."""

    from_the_beginning: bool = False
    """All pages; else those that failed or were not reached."""
    chunk_ids: tuple[ChunkId, ...] = ()
    """Only these chunks of the job; empty means all that lack pages."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Options that differ from the job's, for what is done again."""
    password: Password | None = None
    """The end of a job forgets the one that it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStatus:
    """A tenant as it is now."""

    name: str
    weight: float
    paused: bool
    queued_pages: int
    max_queued_pages: int | None
    open_jobs: int
    ages: Ages
    """Its own; None leaves it to the settings."""


class Control(Protocol):
    """Asks that are honoured at the next page border."""

    def cancel(self, target: Target) -> list[JobId]:
        """Ask for jobs to be cancelled; return those that had not ended. Asking twice is safe."""

    def change(self, target: Target, change: Change) -> list[JobId]:
        """Change open jobs and return them.

        What is changed for a label stands for jobs that come under it later, too; so does the pause of a tenant.
        Raises: Rejected (`invalid_options`), if the hours can't be read.
        """

    def retry(self, job_ids: Sequence[JobId], again: Again) -> list[JobId]:
        """Begin ended jobs again and return them; a job without anything to do again is left out.

        Raises: Rejected (`invalid_options`), if a job would have options that it can't have.
        """

    def job_of(self, chunk_id: UUID) -> JobId | None:
        """Return whose chunk it is."""

    def tenants(self) -> list[TenantStatus]:
        """Return all tenants, by name."""

    def set_tenant(
        self,
        name: str,
        *,
        weight: float | None = None,
        max_queued_pages: int | None = None,
        ages: Mapping[Kept, timedelta | None] | None = None,
    ) -> None:
        """Set what is given of a tenant, which need not have jobs yet; an age of None leaves it to the settings."""
