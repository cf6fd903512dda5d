"""Jobs as those see them who submit and watch them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from pipeline.domain.document import JobId
from pipeline.domain.password import Password
from pipeline.domain.recognition import Flag, PageOutcome
from pipeline.domain.states import JobState
from pipeline.domain.webhooks import WebhookEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What makes a job; one of `source_uri` and `upload_key` is given."""

    source_uri: str | None = None
    upload_key: str | None = None
    source_name: str | None = None
    tenant: str = "default"
    options: Mapping[str, object] = field(default_factory=dict)
    priority: int = 0
    idempotency_key: str | None = None
    label: str | None = None
    """The tenant's batch that it belongs to."""
    deadline: datetime | None = None
    hours: str | None = None
    """When it may run, `20:00-06:00` or `20:00-06:00 Asia/Shanghai`; UTC where no zone is named."""
    password: Password | None = None
    """What opens the document; kept apart from the job, until that has ended."""
    api_key_id: str | None = None
    """The key that it came by."""
    callback_url: str | None = None
    """Who is told of its moves, see `domain/webhooks.py`."""
    callback_events: tuple[WebhookEvent, ...] = ()
    """Of which ones; none means its ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """What became of a submission."""

    job_id: JobId
    is_new: bool
    """Else its idempotency key was known, and this is the job that it named then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are meant; what is not given does not matter."""

    tenant: str | None = None
    label: str | None = None
    states: frozenset[JobState] = frozenset()
    created_from: datetime | None = None
    created_before: datetime | None = None
    before: JobId | None = None
    """Only those submitted before this one."""


EVERYTHING = JobFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job as it is now."""

    job_id: JobId
    tenant: str
    source: str
    source_uri: str | None
    source_name: str
    options: Mapping[str, object]
    sha256: str | None
    media_type: str | None
    size_bytes: int | None
    state: JobState
    priority: int
    page_count: int | None
    outcomes: Mapping[PageOutcome, int]
    flags: tuple[Flag, ...]
    result_keys: Mapping[str, str]
    error_code: str | None
    error_detail: str | None
    cancel_requested: bool
    label: str | None
    paused: bool
    hours: str | None
    off_hours: bool
    """Whether it waits for its hours."""
    deadline: datetime | None
    created_at: datetime
    begun_at: datetime
    finished_at: datetime | None
    callback_url: str | None
    callback_events: tuple[WebhookEvent, ...]

    @property
    def pages_done(self) -> int:
        """Count the pages that have an outcome."""
        return sum(self.outcomes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One step on the trail of a job."""

    event_id: int
    at: datetime
    actor: str
    kind: str
    detail: Mapping[str, object]


class Submissions(Protocol):
    """Jobs from outside."""

    def insert(self, submission: Submission) -> JobId:
        """Insert the job's row and return its id; the same idempotency key again returns the first job."""

    def enter(self, submissions: Sequence[Submission]) -> list[Entered]:
        """Do the same for several, all or none of them, and say which are new."""

    def find(self, job_ids: Sequence[JobId], *, tenant: str | None = None) -> list[JobStatus]:
        """Return these jobs as they are now, in the order given, without those that don't exist.

        Args: with a tenant, only its jobs exist.
        """

    def latest(self, limit: int, wanted: JobFilter = EVERYTHING) -> list[JobStatus]:
        """Return the newest jobs, newest first."""

    def events(self, job_id: JobId, limit: int) -> list[EventRow]:
        """Return the job's latest events, oldest first."""
