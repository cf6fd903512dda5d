"""What the dispatcher does with rows, and where it sends them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from pipeline.domain.document import ChunkId, JobId, Lane
from pipeline.domain.errors import PipelineError
from pipeline.domain.fairness import Window
from pipeline.domain.retry import Attempts, ChunkDecision
from pipeline.domain.states import Step
from pipeline.ports.chunks import ChunkClaim
from pipeline.ports.devices import DeviceInfo


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
    is_short: bool = False
    """Of a short job: it goes before those of long ones that wait in its queue."""


class Admissions(Protocol):
    """Which due rows go onto the broker next.

    Rows are marked as sent before they are. Of several dispatchers only one fills a queue's window at a time; the
    others are given nothing then, so that together they stay within it.
    """

    def take_jobs(self, window: Window) -> list[DueJob]:
        """Mark due jobs as sent, as many as the window has room for, and return them, best first."""

    def take_chunks(self, lane: Lane, window: Window) -> list[DueChunk]:
        """Mark ready chunks of the lane as admitted, as many as its window has room for; return them, best first."""

    def take_express(self, lane: Lane, window: Window) -> list[DueChunk]:
        """Do the same for chunks of short jobs, within the room that is kept for them."""

    def pace(self, lane: Lane) -> float:
        """Return how many times longer than estimated the lane's chunks took lately; 1.0 if none was done."""

    def unsent(self, jobs: Sequence[DueJob], chunks: Sequence[DueChunk]) -> None:
        """Take marks back, because the broker did not take the messages."""

    def live_devices(self) -> Sequence[DeviceInfo]:
        """Return the devices whose lease holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredChunk:
    """A running chunk whose holder has not been heard of for the length of a lease."""

    claim: ChunkClaim
    attempts: Attempts
    pages_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a job may last."""

    longest_job: timedelta
    """From when it was submitted or begun again; it ends then as if that had been its deadline."""
    longest_wait: timedelta
    """Without any move, unless people or hours hold it."""


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

    def recall_held(self) -> int:
        """Take back what was sent of jobs that are to wait, so that it is due when they may go on; return how many."""

    def turn_hours(self) -> int:
        """Hold the jobs whose hours have ended and let those go whose hours have begun; return how many."""

    def end_unwanted(self) -> list[JobId]:
        """End jobs that are to be cancelled, or whose deadline has passed, once nothing of them is in work."""

    def audit(self, after: JobId | None, patience: Patience) -> tuple[JobId | None, list[JobId]]:
        """Look at some open jobs after this one; end or set right those that nothing else would move.

        Returns: where to go on the next time, None for the beginning; the jobs that were stuck.
        """


class ChainQueue(Protocol):
    """Sends chains to the workers' queues: ids and attempt numbers, nothing else."""

    def send_job(self, due: DueJob) -> None:
        """Send the job's step and those that follow it in its chain."""

    def send_chunk(self, due: DueChunk) -> None:
        """Send the chunk to its lane."""

    def depth(self, queue: str) -> int | None:
        """Count the messages that wait in a queue; None if the broker does not say."""
