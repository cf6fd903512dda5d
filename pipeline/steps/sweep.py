"""Sweep: find what nobody else would: messages that were lost, holders that died, jobs that nobody wants any more."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from pipeline.domain.document import JobId, Lane
from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove
from pipeline.domain.retry import AttemptLimits, Retry, decide
from pipeline.ports.dispatch import ChainQueue, ExpiredChunk, Patience, Sweeps
from pipeline.steps.admit import Admit

log = structlog.get_logger()

IO_QUEUE = "io"
_ON_ITS_WAY = timedelta(seconds=3)
"""How long a message may take from the broker to its claim before it counts as missing."""


@dataclass(slots=True)
class Cursor:
    """Where the audit of open jobs goes on."""

    job_id: JobId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The step, over its ports."""

    rows: Sweeps
    queue: ChainQueue
    admit: Admit
    limits: AttemptLimits
    patience: Patience
    resend_after: timedelta
    jitter: Callable[[], float]
    seen: Cursor = field(default_factory=Cursor)

    def __call__(self) -> None:
        """Set right what is wrong. Raises: Transient, when the broker or the database is away."""
        for expired in self.rows.expired_chunks():
            self._reclaim(expired)
        if reclaimed := self.rows.reclaim_steps(self.limits.max_lost):
            log.warning("steps_reclaimed", count=reclaimed)
        for job_id in self.rows.end_unwanted():
            log.info("job_ended_unwanted", job_id=str(job_id))
        if turned := self.rows.turn_hours():
            log.info("hours_turned", jobs=turned)
        if recalled := self.rows.recall_held():
            log.info("held_work_recalled", rows=recalled)
        self._audit()
        self._resend()

    def _audit(self) -> None:
        """Look at some more of the open jobs; a cursor leads through all of them, sweep by sweep."""
        self.seen.job_id, stuck = self.rows.audit(self.seen.job_id, self.patience)
        for job_id in stuck:
            log.error("job_was_stuck", job_id=str(job_id))

    def _reclaim(self, expired: ExpiredChunk) -> None:
        claim = expired.claim
        error = PipelineError(
            ErrorCode.LEASE_EXPIRED,
            f"{claim.owner} was not heard of for the length of its lease, attempt {claim.attempt}",
        )
        decision = decide(
            error.code,
            attempts=expired.attempts.and_one(error.code),
            pages_left=expired.pages_left,
            limits=self.limits,
            jitter=self.jitter(),
        )
        if expired.pages_left == 0:
            # All its pages are in the ledger; what was lost is only the word that it is done.
            decision = Retry(after=timedelta(0))
        try:
            self.rows.reclaim(expired, error, decision)
        except StaleMove:
            return
        log.warning("chunk_reclaimed", chunk_id=str(claim.chunk_id), attempt=claim.attempt, owner=claim.owner)

    def _resend(self) -> None:
        """Send again what was sent and not taken; harmless where the first message still comes: claims are fenced."""
        jobs = self.rows.unstarted_jobs(self._patience(IO_QUEUE))
        if self.admit.send_jobs(jobs):
            log.warning("steps_sent_again", count=len(jobs))
        for lane in Lane:
            # Pages that are being rendered wait in no queue, and are not to be rendered twice.
            patience = self.resend_after if lane.renders_ahead else self._patience(lane)
            chunks = self.rows.unstarted_chunks(lane, patience)
            if self.admit.send_chunks(chunks):
                log.warning("chunks_sent_again", lane=lane, count=len(chunks))

    def _patience(self, queue: str) -> timedelta:
        """Return how old an unanswered message must be to count as lost: an empty queue holds none that could come."""
        return _ON_ITS_WAY if self.queue.depth(queue) == 0 else self.resend_after
