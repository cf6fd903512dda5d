"""The moves of a job, and the pages that it has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from pipeline.domain.assembly import LedgerPage
from pipeline.domain.document import JobId, PlannedChunk
from pipeline.domain.errors import PipelineError
from pipeline.domain.password import Password
from pipeline.domain.recognition import Flag, PageOutcome
from pipeline.domain.retry import Attempts
from pipeline.domain.states import JobState, Step
from pipeline.ports.documents import Inspection


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClaim:
    """The right to do one step of a job, at one attempt, until its lease runs out."""

    job_id: JobId
    step: Step
    attempt: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedJob:
    """What a step needs to know of the job that it claimed."""

    claim: JobClaim
    tenant: str
    source_uri: str | None
    upload_key: str | None
    source_name: str
    options: Mapping[str, object]
    """As submitted, not yet validated."""
    sha256: str | None
    size_bytes: int | None
    media_type: str | None
    page_count: int | None
    flags: tuple[Flag, ...]
    document_key: str | None
    attempts: Attempts
    created_at: datetime
    password: Password | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOriginal:
    """What ingest found out."""

    sha256: str
    size_bytes: int
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBounds:
    """How many planned pages may wait or be in work."""

    per_tenant: int
    """Of a tenant whose row does not say otherwise."""
    in_all: int


class JobSteps(Protocol):
    """The moves of a job. Each is fenced by its claim and raises StaleMove if that no longer holds."""

    def claim(self, job_id: JobId, step: Step, attempt: int) -> ClaimedJob:
        """Take the step at this attempt, or raise StaleMove: done, taken, cancelled, or another attempt's turn."""

    def renew(self, claim: JobClaim) -> None:
        """Extend the lease; called while the work moves on, never by a clock alone."""

    def ingested(self, claim: JobClaim, original: StoredOriginal) -> None:
        """Move on to planning."""

    def check_room(self, claim: JobClaim, bounds: QueueBounds) -> None:
        """Make sure that the queue has room for at least one page more. Raises: Rejected (`queue_full`)."""

    def planned(
        self,
        claim: JobClaim,
        inspection: Inspection,
        chunks: Sequence[PlannedChunk],
        *,
        is_short: bool,
        bounds: QueueBounds,
    ) -> None:
        """Write all pages and chunks, which share a lane, and set the job running, in one transaction.

        Raises: Rejected (`queue_full`), if the queue is over its bounds with them; nothing is written then.
        """

    def merged(self, claim: JobClaim, document_key: str) -> None:
        """Move on to exporting."""

    def exported(self, claim: JobClaim, result_keys: Mapping[str, str]) -> None:
        """Move on to delivering."""

    def end(self, claim: JobClaim, state: JobState, error: PipelineError | None = None) -> None:
        """End the job."""

    def note(self, claim: JobClaim, kind: str, **detail: object) -> None:
        """Write down on the job's trail what no move says."""

    def put_back(self, claim: JobClaim, error: PipelineError, after: timedelta) -> None:
        """Give the step up for now: it is due again after this time, and the attempt is counted."""


class Ledger(Protocol):
    """The pages of a job."""

    def pages(self, job_id: JobId) -> Iterator[LedgerPage]:
        """Yield the ledger in page order, streaming."""

    def outcomes(self, job_id: JobId) -> dict[PageOutcome, int]:
        """Count the finished pages by outcome."""

    def flags(self, job_id: JobId) -> dict[str, int]:
        """Count the pages by flag, in the order of their names."""
