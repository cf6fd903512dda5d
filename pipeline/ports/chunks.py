"""The moves of a chunk that a device makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from pipeline.domain.batches import Misfit
from pipeline.domain.document import ChunkId, JobId, Lane, PageClass
from pipeline.domain.errors import PipelineError
from pipeline.domain.password import Password
from pipeline.domain.recognition import Flag, PageOutcome, PageSource
from pipeline.domain.retry import Attempts, ChunkDecision
from pipeline.domain.states import AttemptOutcome


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
    attempts: Attempts
    password: Password | None
    misfit: Misfit | None = None
    """What there was no memory for, where that is why the options name another engine."""


class Hold(StrEnum):
    """What the rows say to whoever holds a claim."""

    GO_ON = "go_on"
    CANCEL = "cancel"
    """The job is to be cancelled, or is too late: stop at the next page."""
    PAUSE = "pause"
    """The job is to wait: stop at the next page, and hand the rest back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Memory of a runner around one chunk, bytes: what it has in use of an accelerator, else its resident memory."""

    baseline_bytes: int | None = None
    peak_bytes: int | None = None
    after_bytes: int | None = None
    """When it had given back what it could."""
    reserved_bytes: int | None = None
    """The most that its allocator kept of an accelerator."""
    used_bytes: int | None = None
    """Of the accelerator afterwards, by all processes, as its driver says."""
    resident_bytes: int | None = None
    """Of the host afterwards."""
    planned_bytes: int | None = None
    """What the largest batch was expected to take at its peak, the engine itself included."""


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
    digest: str | None = None
    """What it looks like, if others may be taken over from it."""
    source: PageSource | None = None
    """Where it was taken over from, if it was."""
    tokens: int | None = None
    """That were generated for it; None from engines that generate none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPage:
    """A page that was read before."""

    job_id: UUID
    number: int
    segment_key: str


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

    def known_page(self, claim: ChunkClaim, digest: str) -> KnownPage | None:
        """Return a page of the same tenant that looks like this, if one was read lately and is still there."""

    def note(self, claim: ChunkClaim, kind: str, **detail: object) -> None:
        """Write down on the job's trail what no move says."""

    def finish(self, claim: ChunkClaim, measured: Measured) -> None:
        """End the chunk as done; if it was its job's last, the job is due for its merge in the same transaction."""

    def fail(
        self, claim: ChunkClaim, error: PipelineError, decision: ChunkDecision, measured: Measured, suspect: int | None
    ) -> None:
        """Record a failed attempt and do as the decision says: due again, taken apart, or given up.

        Args: suspect is the page that was being read when the process ended, if one was.
        """

    def hand_back(self, claim: ChunkClaim, outcome: AttemptOutcome, measured: Measured) -> None:
        """Stop at a page border without blame: drained or paused (due again at once), or cancelled."""
