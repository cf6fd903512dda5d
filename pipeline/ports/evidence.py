"""What the rows say after a drill, as its verdict needs it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.domain.document import ChunkId, JobId
from pipeline.domain.errors import ErrorCode
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import AttemptOutcome, ChunkState, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a system is."""

    pages: int
    """That have an outcome."""
    moves: int
    """Of jobs and chunks, counted so that it only grows."""
    jobs_open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvidence:
    """A job and its pages."""

    job_id: JobId
    source_name: str
    state: JobState
    steps_claimed: int
    error_code: str | None
    merges: int
    """How often it became due to be merged."""
    result_key: str | None
    """Where its `document.json` is."""
    ledger: Sequence["PageEvidence"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEvidence:
    """A page, as the ledger has it."""

    number: int
    outcome: PageOutcome | None
    error_code: ErrorCode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEvidence:
    """A chunk."""

    chunk_id: ChunkId
    job_id: JobId
    state: ChunkState


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvidence:
    """One claim of a chunk."""

    chunk_id: ChunkId
    job_id: JobId
    attempt: int
    device_id: str
    started_at: datetime
    ended_at: datetime | None
    outcome: AttemptOutcome | None
    error_code: str | None
    pages_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEvidence:
    """One move on the trail."""

    at: datetime
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowEvidence:
    """Everything that the rows say."""

    jobs: Sequence[JobEvidence] = ()
    chunks: Sequence[ChunkEvidence] = ()
    attempts: Sequence[AttemptEvidence] = ()
    moves: Sequence[MoveEvidence] = field(default=(), repr=False)
