"""Deliver: judge the ledger and end the job; whoever waits for it learns of it from the row."""

from dataclasses import dataclass

from pipeline.domain.assembly import judge
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import JobState
from pipeline.ports.jobs import ClaimedJob, JobSteps, Ledger

_NAMED_PAGES = 20
"""Page numbers that a message repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """The step, over its ports."""

    jobs: JobSteps
    ledger: Ledger

    def __call__(self, job: ClaimedJob) -> None:
        """End the job as its pages ended. Raises: PipelineError (`ledger_broken`), if the count is not right."""
        outcomes = self.ledger.outcomes(job.claim.job_id)
        if sum(outcomes.values()) != job.page_count:
            raise PipelineError(
                ErrorCode.LEDGER_BROKEN,
                f"job {job.claim.job_id} has {job.page_count} pages, {sum(outcomes.values())} of them with an outcome",
            )
        state = judge(outcomes)
        error = None if state is JobState.SUCCEEDED else self._what_failed(job, state)
        self.jobs.end(job.claim, state, error)

    def _what_failed(self, job: ClaimedJob, state: JobState) -> PipelineError:
        failed = [
            f"{page.number} ({page.error_code})"
            for page in self.ledger.pages(job.claim.job_id)
            if page.outcome is PageOutcome.FAILED
        ]
        named = ", ".join(failed[:_NAMED_PAGES]) + (", ..." if len(failed) > _NAMED_PAGES else "")
        code = ErrorCode.ALL_PAGES_FAILED if state is JobState.FAILED else ErrorCode.SOME_PAGES_FAILED
        return PipelineError(code, f"{len(failed)} of {job.page_count} pages failed: {named}")
