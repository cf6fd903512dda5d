"""Merge: bind the finished pages in order into one object, and prove that none is missing or there twice."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from pipeline.domain import keys
from pipeline.domain.assembly import bind, numbers_of
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected
from pipeline.domain.options import parse_options
from pipeline.domain.recognition import PageResult
from pipeline.domain.running_titles import with_running_titles
from pipeline.domain.serialisation import decode_segment, encode_page
from pipeline.ports.jobs import ClaimedJob, JobSteps, Ledger
from pipeline.ports.objects import ObjectStore
from pipeline.steps.job_step import renewing

BOUND_MEDIA_TYPE = "application/jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The step, over its ports."""

    jobs: JobSteps
    ledger: Ledger
    objects: ObjectStore
    renew_every: timedelta

    def __call__(self, job: ClaimedJob) -> None:
        """Bind the job's pages. Raises: PipelineError (`ledger_broken`), if they are not exactly those that are due."""
        if job.page_count is None:
            raise PipelineError(
                ErrorCode.LEDGER_BROKEN, f"job {job.claim.job_id} is to be merged and has no page count"
            )
        numbers = numbers_of(job.page_count, parse_options(job.options).pages)
        bound = bind(self.ledger.pages(job.claim.job_id), self._read_segment, numbers)
        pages = with_running_titles(bound)
        key = keys.bound_pages(job.claim.job_id, job.claim.attempt)
        content = (encode_page(page) for page in renewing(pages, self.jobs, job.claim, self.renew_every))
        self.objects.put(key, content, media_type=BOUND_MEDIA_TYPE)
        self.jobs.merged(job.claim, key)

    def _read_segment(self, key: str) -> Iterator[PageResult]:
        try:
            with self.objects.get(key) as pieces:
                yield from decode_segment(pieces)
        except Rejected as error:
            # What the ledger names has to be there; its absence is our fault, not the document's.
            raise PipelineError(ErrorCode.LEDGER_BROKEN, f"the ledger names {key}, which is gone") from error
