"""What the steps need of the rows, as small protocols: the moves of jobs and chunks, the ledger, devices, admission.

Every verb may raise `Transient`, when the database is away; what else it raises is said beside it.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from pipeline.domain.assembly import LedgerPage
from pipeline.domain.document import ChunkId, JobId, Lane, PageClass, PlannedChunk
from pipeline.domain.errors import PipelineError
from pipeline.domain.recognition import EngineIdentity, Flag, PageOutcome
from pipeline.domain.retry import ChunkDecision
from pipeline.domain.states import AttemptOutcome, DeviceState, JobState, Step
from pipeline.ports import Inspection


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
    result_keys: Mapping[str, str]
    failures: int
    lost: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOriginal:
    """What ingest found out."""

    sha256: str
    size_bytes: int
    media_type: str


class JobSteps(Protocol):
    """The moves of a job. Each is fenced by its claim and raises StaleMove if that no longer holds."""

    def claim(self, job_id: JobId, step: Step, attempt: int) -> ClaimedJob:
        """Take the step at this attempt, or raise StaleMove: done, taken, cancelled, or another attempt's turn."""

    def renew(self, claim: JobClaim) -> None:
        """Extend the lease; called while the work moves on, never by a clock alone."""

    def ingested(self, claim: JobClaim, original: StoredOriginal) -> None:
        """Move on to planning."""

    def planned(self, claim: JobClaim, inspection: Inspection, chunks: Sequence[PlannedChunk]) -> None:
        """Write all pages and chunks, and set the job running, in one transaction."""

    def merged(self, claim: JobClaim, document_key: str) -> None:
        """Move on to exporting."""

    def exported(self, claim: JobClaim, result_keys: Mapping[str, str]) -> None:
        """Move on to delivering."""

    def end(self, claim: JobClaim, state: JobState, error: PipelineError | None = None) -> None:
        """End the job."""

    def put_back(self, claim: JobClaim, error: PipelineError, after: timedelta) -> None:
        """Give the step up for now: it is due again after this time, and the attempt is counted."""


class Ledger(Protocol):
    """The pages of a job."""

    def pages(self, job_id: JobId) -> Iterator[LedgerPage]:
        """Yield the ledger in page order, streaming."""

    def outcomes(self, job_id: JobId) -> dict[PageOutcome, int]:
        """Count the finished pages by outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkClaim:
    """The right to recognise one chunk, at one attempt, until its lease runs out."""

    chunk_id: ChunkId
    job_id: JobId
    attempt: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTask:
    """A page that still needs an outcome."""

    number: int
    page_class: PageClass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedChunk:
    """What recognition needs to know of the chunk that it claimed."""

    claim: ChunkClaim
    lane: Lane
    pages: tuple[PageTask, ...]
    """Those without an outcome; earlier attempts may have done the others."""
    sha256: str
    """Of the original; where it lies follows from it."""
    size_bytes: int
    options: Mapping[str, object]
    failures: int
    lost: int


class Hold(StrEnum):
    """What the rows say to whoever holds a claim."""

    GO_ON = "go_on"
    CANCEL = "cancel"
    """The job is to be cancelled: stop at the next page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Memory of a runner around one chunk, bytes."""

    baseline_bytes: int | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEntry:
    """The ledger's entry for a page that has just been finished."""

    number: int
    outcome: PageOutcome
    segment_key: str
    flags: tuple[Flag, ...]
    confidence: float | None
    angle_deg: float
    width_px: int
    height_px: int
    dpi: float
    engine: str
    revision: str
    elapsed_ms: int
    error_code: str | None
    error_detail: str | None


class ChunkMoves(Protocol):
    """The moves of a chunk that a device makes. Each is fenced and raises StaleMove if the claim no longer holds."""

    def peek(self, chunk_id: ChunkId, attempt: int) -> ClaimedChunk:
        """Return what a claim at this attempt would get, without claiming; raise StaleMove if it would get nothing."""

    def claim(self, chunk_id: ChunkId, attempt: int, *, device_id: str) -> ClaimedChunk:
        """Take the chunk at this attempt, or raise StaleMove."""

    def renew(self, claim: ChunkClaim) -> Hold:
        """Extend the lease and say whether to go on; called when a page was finished, never by a clock alone."""

    def look(self, claim: ChunkClaim) -> Hold:
        """Say whether to go on, without extending the lease."""

    def record(self, claim: ChunkClaim, pages: Sequence[PageEntry]) -> Hold:
        """Enter finished pages into the ledger, extend the lease, and say whether to go on."""

    def finish(self, claim: ChunkClaim, measured: Measured) -> None:
        """End the chunk as done; if it was its job's last, the job is due for its merge in the same transaction."""

    def fail(
        self, claim: ChunkClaim, error: PipelineError, decision: ChunkDecision, measured: Measured, suspect: int | None
    ) -> None:
        """Record a failed attempt and do as the decision says: due again, taken apart, or given up.

        Args: suspect is the page that was being read when the process ended, if one was.
        """

    def hand_back(self, claim: ChunkClaim, outcome: AttemptOutcome, measured: Measured) -> None:
        """Stop at a page border without blame: drained (due again at once) or cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A device that a worker serves."""

    host: str
    name: str
    """`cpu:0`, `cuda:0`."""
    kind: str
    lanes: tuple[Lane, ...]
    total_bytes: int | None = None

    @property
    def id(self) -> str:
        """Return the id that is unique among all hosts."""
        return f"{self.host}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStarted:
    """The runner has begun a page."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesFinished:
    """The runner has put a group of finished pages into the store."""

    pages: tuple[PageEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment has passed without news from a runner that is still within its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEnded:
    """The runner has come to the end of the chunk, or to a page border after it was asked to stop."""

    stopped: bool
    measured: Measured


ReadingEvent = PageStarted | PagesFinished | Tick | ChunkEnded


class ReadingDevice(Protocol):
    """A device with a runner that reads one chunk at a time."""

    @property
    def device_id(self) -> str:
        """Return the id of the device's row."""

    def make_ready(self) -> None:
        """Wait for a warm runner, starting one if there is none. Raises: Transient (`engine_unavailable`)."""

    def read(self, chunk: ClaimedChunk) -> Generator[ReadingEvent, None, None]:
        """Yield what happens to the chunk, at least once a second; the last event is ChunkEnded.

        Closing it before that stops the runner at a page border, or kills it if it does not stop in time.

        Raises: PipelineError, when the runner says that the chunk failed, or when it died (`process_died`) or was
            killed because no page moved on (`stalled`); no runner is left then.
        """

    def stop(self) -> None:
        """Ask the runner to stop at the next page border; it is killed if it does not within a grace time."""


class DeviceHeld(Exception):
    """Another process holds the device; this one must not start."""

    def __init__(self, device_id: str, holder: str) -> None:
        super().__init__(f"device {device_id} is held by {holder}; stop that worker first, or name another device")
        self.holder = holder


class Devices(Protocol):
    """Who holds which device."""

    def acquire(self, device: DeviceInfo, owner: str) -> None:
        """Take the device's lease. Raises: DeviceHeld, which says by whom."""

    def renew(self, device_id: str, owner: str, state: DeviceState) -> bool:
        """Extend the lease and show the state; say whether it still is ours."""

    def describe(self, device_id: str, owner: str, engine: EngineIdentity, measured: Measured) -> None:
        """Show what is loaded and what it takes."""

    def release(self, device_id: str, owner: str) -> None:
        """Give the device back."""


# --- admission -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DueJob:
    """A job whose next step may be sent."""

    job_id: JobId
    step: Step
    attempt: int
    """The attempt that the claim will make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueChunk:
    """A chunk that may be sent to its lane."""

    chunk_id: ChunkId
    job_id: JobId
    lane: Lane
    attempt: int


class Admissions(Protocol):
    """What the dispatcher does with rows: mark them as sent before they are, and take back what was lost."""

    def in_flight_jobs(self) -> int:
        """Count the jobs with a step that was sent or is running."""

    def in_flight_chunks(self, lane: Lane) -> int:
        """Count the lane's chunks that were sent or are running."""

    def take_jobs(self, limit: int) -> list[DueJob]:
        """Mark at most this many due jobs as sent, best first, and return them; other dispatchers get others."""

    def take_chunks(self, lane: Lane, limit: int) -> list[DueChunk]:
        """Mark at most this many ready chunks of the lane as admitted, best first, and return them."""

    def unsent(self, jobs: Sequence[DueJob], chunks: Sequence[DueChunk]) -> None:
        """Take marks back, because the broker did not take the messages."""

    def live_devices(self) -> Sequence[DeviceInfo]:
        """Return the devices whose lease holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredChunk:
    """A running chunk whose holder has not been heard of for the length of a lease."""

    claim: ChunkClaim
    failures: int
    lost: int
    pages_left: int


class Sweeps(Protocol):
    """What the dispatcher finds that nobody else would."""

    def unstarted_jobs(self, older_than: timedelta) -> list[DueJob]:
        """Mark again, and return, jobs whose message was sent that long ago and whose step nobody took."""

    def unstarted_chunks(self, lane: Lane, older_than: timedelta) -> list[DueChunk]:
        """Mark again, and return, chunks that were admitted that long ago and that nobody took."""

    def expired_chunks(self) -> list[ExpiredChunk]:
        """Return running chunks whose lease has run out."""

    def reclaim(self, expired: ExpiredChunk, error: PipelineError, decision: ChunkDecision) -> None:
        """Take an expired chunk from whoever held it. Raises: StaleMove, if its holder has come back in time."""

    def reclaim_steps(self, max_lost: int) -> int:
        """Make steps whose lease has run out due again, or fail their job after too many; return how many."""

    def end_unwanted(self) -> list[JobId]:
        """End jobs that are to be cancelled, or whose deadline has passed, once nothing of them is in work."""


class ChainQueue(Protocol):
    """Sends chains to the workers' queues: ids and attempt numbers, nothing else."""

    def send_job(self, due: DueJob) -> None:
        """Send the job's step and those that follow it in its chain."""

    def send_chunk(self, due: DueChunk) -> None:
        """Send the chunk to its lane."""

    def depth(self, queue: str) -> int | None:
        """Count the messages that wait in a queue; None if the broker does not say."""


# --- submitting and watching -----------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job as it is now."""

    job_id: JobId
    tenant: str
    source: str
    source_name: str
    state: JobState
    priority: int
    page_count: int | None
    outcomes: Mapping[PageOutcome, int]
    flags: tuple[Flag, ...]
    result_keys: Mapping[str, str]
    error_code: str | None
    error_detail: str | None
    cancel_requested: bool
    created_at: datetime
    finished_at: datetime | None

    @property
    def pages_done(self) -> int:
        """Count the pages that have an outcome."""
        return sum(self.outcomes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One step on the trail of a job."""

    at: datetime
    actor: str
    kind: str
    detail: Mapping[str, object]


class Submissions(Protocol):
    """Jobs from outside."""

    def insert(self, submission: Submission) -> JobId:
        """Insert the job's row and return its id; the same idempotency key again returns the first job."""

    def find(self, job_ids: Sequence[JobId]) -> list[JobStatus]:
        """Return these jobs as they are now, in the order given, without those that don't exist."""

    def latest(self, limit: int, state: JobState | None = None) -> list[JobStatus]:
        """Return the newest jobs, newest first."""

    def events(self, job_id: JobId, limit: int) -> list[EventRow]:
        """Return the job's latest events, oldest first."""

    def cancel(self, job_ids: Sequence[JobId]) -> list[JobId]:
        """Ask for the jobs to be cancelled; return those that had not ended. Asking twice is safe."""

    def retry(self, job_ids: Sequence[JobId]) -> list[JobId]:
        """Begin ended jobs again and return them: all of it where no page has a result, else the pages without one."""
