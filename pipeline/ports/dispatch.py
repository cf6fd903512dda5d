"""What the dispatcher does with rows, and where it sends them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from pipeline.domain.document import ChunkId, JobId, Lane
from pipeline.domain.errors import PipelineError
from pipeline.domain.retry import ChunkDecision
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
