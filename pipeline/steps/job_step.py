"""What all steps of a job have in common: claim, work, and the fate of an error, which ends on the row in any case."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar, assert_never

import structlog

from pipeline.domain.document import JobId
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected, StaleMove
from pipeline.domain.retry import AttemptLimits, GiveUp, Retry, decide_step
from pipeline.domain.states import JobState, Step
from pipeline.ports.jobs import ClaimedJob, JobClaim, JobSteps
from pipeline.ports.meter import Meter, StepEnded, Uncounted

log = structlog.get_logger()
Item = TypeVar("Item")
_TAKEN_AWAY = "taken_away"
"""Stands for an error's code where somebody else had the step by the end."""


class Next(StrEnum):
    """What the task that ran a step does then."""

    GO_ON = "go_on"
    """The next step of the chain may start."""
    STOP = "stop"
    """Nothing more is to be done here: the step was someone else's, will be due again, or ended the job."""


@dataclass(frozen=True, slots=True)
class _Fate:
    """What became of a claimed step."""

    code: str | None
    """Why it was not done, if it was not."""
    ends_job: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRunner:
    """Runs steps of jobs."""

    jobs: JobSteps
    limits: AttemptLimits
    jitter: Callable[[], float]
    meter: Meter = field(default_factory=Uncounted)

    def run(self, job_id: JobId, step: Step, attempt: int, work: Callable[[ClaimedJob], None]) -> Next:
        """Claim the step, do the work, which makes the move; record what went wrong, if anything did."""
        with structlog.contextvars.bound_contextvars(job_id=str(job_id), step=str(step), attempt=attempt):
            try:
                job = self.jobs.claim(job_id, step, attempt)
            except StaleMove as stale:
                log.info("step_not_claimed", reason=str(stale))
                return Next.STOP
            started = time.monotonic()
            fate = self._work(job, work)
            seconds = time.monotonic() - started
            log.info("step_ended", error_code=fate.code, seconds=round(seconds, 2))
            self.meter.step_ended(
                StepEnded(
                    job_id=job_id,
                    step=step,
                    attempt=attempt,
                    error_code=fate.code,
                    seconds=seconds,
                    job_took=datetime.now(UTC) - job.created_at if fate.ends_job else None,
                )
            )
            return Next.GO_ON if fate.code is None else Next.STOP

    def _work(self, job: ClaimedJob, work: Callable[[ClaimedJob], None]) -> _Fate:
        try:
            work(job)
        except StaleMove as stale:
            log.warning("step_taken_away", reason=str(stale))
            return _Fate(_TAKEN_AWAY, ends_job=False)
        except PipelineError as error:
            return self._record(job, error)
        except Exception as error:  # the border: whatever it is, its fate stands on the row
            log.exception("step_broke")
            return self._record(
                job, PipelineError(ErrorCode.INTERNAL, f"{type(error).__name__} during {job.claim.step}")
            )
        return _Fate(None, ends_job=job.claim.step is Step.DELIVER)

    def _record(self, job: ClaimedJob, error: PipelineError) -> _Fate:
        claim = job.claim
        log.warning("step_failed", code=error.code, detail=error.message)
        try:
            if isinstance(error, Rejected):
                self.jobs.end(claim, _where_the_document_is_to_blame(claim.step), error)
                return _Fate(error.code, ends_job=True)
            return _Fate(error.code, ends_job=self._retry_or_end(job, error))
        except StaleMove as stale:
            log.warning("step_taken_away", reason=str(stale))
            return _Fate(_TAKEN_AWAY, ends_job=False)

    def _retry_or_end(self, job: ClaimedJob, error: PipelineError) -> bool:
        """Return whether the job has ended by that."""
        decision = decide_step(
            error.code, attempts=job.attempts.and_one(error.code), limits=self.limits, jitter=self.jitter()
        )
        match decision:
            case Retry(after=after):
                self.jobs.put_back(job.claim, error, after)
                return False
            case GiveUp(code=code):
                self.jobs.end(job.claim, JobState.FAILED, PipelineError(code, error.message))
                return True
            case _:
                assert_never(decision)


def _where_the_document_is_to_blame(step: Step) -> JobState:
    """Return how a job ends that was refused; once pages were recognised, nothing about the document is new."""
    return JobState.REJECTED if step in (Step.INGEST, Step.SPLIT) else JobState.FAILED


def renewing(items: Iterable[Item], jobs: JobSteps, claim: JobClaim, every: timedelta) -> Iterator[Item]:
    """Yield the items, extending the lease as they pass: it holds as long as the work moves on, and no longer."""
    renewed = time.monotonic()
    for item in items:
        if time.monotonic() - renewed > every.total_seconds():
            jobs.renew(claim)
            renewed = time.monotonic()
        yield item
