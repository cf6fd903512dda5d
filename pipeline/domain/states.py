"""Every state a job, a chunk or a device may be in, every move between them, and which step a job waits for.

The moves stand here and nowhere else; the tables repeat the states as CHECK constraints and adapters write no other.
"""

from enum import StrEnum


class JobState(StrEnum):
    """Where a document is on its way. Each non-terminal state but `running` names the step it waits for."""

    SUBMITTED = "submitted"
    """Ingest: fetch the source, check it, store it under its content hash."""
    PLANNING = "planning"
    """Split: classify the pages, write page and chunk rows."""
    RUNNING = "running"
    """Its chunks are being recognised."""
    MERGING = "merging"
    """Merge: bind the pages in order and prove that none is missing."""
    EXPORTING = "exporting"
    """Export: write the outputs that were asked for."""
    DELIVERING = "delivering"
    """Deliver: judge the ledger, end the job and tell whoever asked."""
    SUCCEEDED = "succeeded"
    """Every page has a result."""
    PARTIAL = "partial"
    """Some pages failed, each with its cause; all others have a result."""
    REJECTED = "rejected"
    """The document can't be taken; the error says what to do."""
    FAILED = "failed"
    """No page could be read, or a step failed too often."""
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing will ever happen to the job by itself again."""
        return not JOB_MOVES[self]


class Step(StrEnum):
    """One use case of the pipeline; also the last part of its Celery task's name."""

    INGEST = "ingest"
    SPLIT = "split"
    RENDER = "render"
    RECOGNISE = "recognise"
    MERGE = "merge"
    EXPORT = "export"
    DELIVER = "deliver"


class ChunkState(StrEnum):
    """Where a page range is."""

    READY = "ready"
    """Waits in Postgres, until `not_before` if that is set."""
    ADMITTED = "admitted"
    """A message for it is, or was, on the broker."""
    RUNNING = "running"
    """A device holds it under a lease."""
    DONE = "done"
    SPLIT = "split"
    """Replaced by smaller chunks, to set a poison page apart."""
    DEAD = "dead"
    """Given up; its unfinished pages ended as failed."""
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the chunk no longer counts among those its job waits for."""
        return not CHUNK_MOVES[self]


class DeviceState(StrEnum):
    """What an accelerator or CPU slot is doing."""

    FREE = "free"
    BUSY = "busy"
    DRAINING = "draining"
    SICK = "sick"


class AttemptOutcome(StrEnum):
    """How one claim of a chunk ended; None on its row while it runs."""

    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    """Its lease ran out: the worker, its host or its way to the database is gone."""
    DRAINED = "drained"
    """Handed back at a page border by a worker that was asked to stop; not counted against the chunk."""
    PAUSED = "paused"
    """Handed back at a page border because its job, or all of its tenant's, is to wait; not counted either."""
    CANCELLED = "cancelled"


_ENDS_BADLY = frozenset({JobState.REJECTED, JobState.FAILED, JobState.CANCELLED})

JOB_MOVES: dict[JobState, frozenset[JobState]] = {
    JobState.SUBMITTED: frozenset({JobState.PLANNING}) | _ENDS_BADLY,
    JobState.PLANNING: frozenset({JobState.RUNNING}) | _ENDS_BADLY,
    JobState.RUNNING: frozenset({JobState.MERGING, JobState.FAILED, JobState.CANCELLED}),
    JobState.MERGING: frozenset({JobState.EXPORTING, JobState.FAILED, JobState.CANCELLED}),
    JobState.EXPORTING: frozenset({JobState.DELIVERING, JobState.FAILED, JobState.CANCELLED}),
    JobState.DELIVERING: frozenset({JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED}),
    # Nothing moves out of these by itself; see BEGINS_AGAIN.
    JobState.SUCCEEDED: frozenset(),
    JobState.PARTIAL: frozenset(),
    JobState.REJECTED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}

BEGINS_AGAIN: dict[JobState, frozenset[JobState]] = {
    JobState.SUCCEEDED: frozenset({JobState.SUBMITTED}),
    JobState.PARTIAL: frozenset({JobState.SUBMITTED, JobState.RUNNING, JobState.MERGING}),
    JobState.REJECTED: frozenset({JobState.SUBMITTED}),
    JobState.FAILED: frozenset({JobState.SUBMITTED, JobState.RUNNING, JobState.MERGING}),
    JobState.CANCELLED: frozenset({JobState.SUBMITTED, JobState.RUNNING, JobState.MERGING}),
}
"""A retry: a new beginning that a person asked for. A job whose pages partly have results keeps them and goes on."""

CHUNK_MOVES: dict[ChunkState, frozenset[ChunkState]] = {
    # Dead before it ever ran: nobody took it for longer than anything may wait.
    ChunkState.READY: frozenset({ChunkState.ADMITTED, ChunkState.DEAD, ChunkState.CANCELLED}),
    ChunkState.ADMITTED: frozenset({ChunkState.RUNNING, ChunkState.READY, ChunkState.DEAD, ChunkState.CANCELLED}),
    ChunkState.RUNNING: frozenset(
        {ChunkState.DONE, ChunkState.READY, ChunkState.SPLIT, ChunkState.DEAD, ChunkState.CANCELLED}
    ),
    ChunkState.DONE: frozenset(),
    ChunkState.SPLIT: frozenset(),
    ChunkState.DEAD: frozenset(),
    ChunkState.CANCELLED: frozenset(),
}

STEP_OF: dict[JobState, Step] = {
    JobState.SUBMITTED: Step.INGEST,
    JobState.PLANNING: Step.SPLIT,
    JobState.MERGING: Step.MERGE,
    JobState.EXPORTING: Step.EXPORT,
    JobState.DELIVERING: Step.DELIVER,
}
"""The step that a job in this state waits for; a running job waits for its chunks."""

JOB_CHAINS: tuple[tuple[Step, ...], ...] = ((Step.INGEST, Step.SPLIT), (Step.MERGE, Step.EXPORT, Step.DELIVER))
CHUNK_CHAINS: tuple[tuple[Step, ...], ...] = ((Step.RENDER, Step.RECOGNISE),)


def chain_from(step: Step) -> tuple[Step, ...]:
    """Return the steps that follow one another from this one on, itself first, without a row deciding between."""
    for chain in JOB_CHAINS + CHUNK_CHAINS:
        if step in chain:
            return chain[chain.index(step) :]
    raise ValueError(f"no chain holds the step {step}")
