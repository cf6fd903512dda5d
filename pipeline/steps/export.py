"""Export: write the bound document in every format that was asked for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.domain import keys
from pipeline.domain.assembly import DocumentHeader
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.options import OutputFormat, parse_options
from pipeline.domain.recognition import PageResult
from pipeline.domain.serialisation import decode_segment
from pipeline.ports.jobs import ClaimedJob, JobSteps, Ledger
from pipeline.ports.objects import ObjectStore
from pipeline.ports.outputs import Output
from pipeline.steps.job_step import renewing


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The step, over its ports."""

    jobs: JobSteps
    ledger: Ledger
    objects: ObjectStore
    outputs: Mapping[OutputFormat, Output]
    now: Callable[[], datetime]
    renew_every: timedelta

    def __call__(self, job: ClaimedJob) -> None:
        """Write the outputs, each streamed from the bound pages."""
        header = self._header(job)
        written: dict[str, str] = {}
        for name in parse_options(job.options).formats:
            output = self.outputs[name]
            key = keys.result(job.claim.job_id, job.claim.attempt, output.file_name)
            pages = renewing(self._pages(job), self.jobs, job.claim, self.renew_every)
            self.objects.put(key, output.write(header, pages), media_type=output.media_type)
            written[name] = key
        self.jobs.exported(job.claim, written)

    def _header(self, job: ClaimedJob) -> DocumentHeader:
        if job.sha256 is None or job.media_type is None or job.size_bytes is None or job.page_count is None:
            raise PipelineError(
                ErrorCode.LEDGER_BROKEN, f"job {job.claim.job_id} is to be exported and was never planned"
            )
        return DocumentHeader(
            job_id=job.claim.job_id,
            source_name=job.source_name,
            sha256=job.sha256,
            media_type=job.media_type,
            size_bytes=job.size_bytes,
            page_count=job.page_count,
            selected=parse_options(job.options).pages,
            outcomes=self.ledger.outcomes(job.claim.job_id),
            flags=job.flags,
            page_flags=self.ledger.flags(job.claim.job_id),
            created_at=job.created_at,
            finished_at=self.now(),
        )

    def _pages(self, job: ClaimedJob) -> Iterator[PageResult]:
        if job.document_key is None:
            raise PipelineError(
                ErrorCode.LEDGER_BROKEN, f"job {job.claim.job_id} is to be exported and was never merged"
            )
        with self.objects.get(job.document_key) as pieces:
            yield from decode_segment(pieces)
