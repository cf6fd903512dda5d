"""Split: look at every page without rendering any, and write the page and chunk rows in one transaction."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from pipeline.domain import keys
from pipeline.domain.chunk_memory import ChunkTime, EngineMemory, chunk_pages
from pipeline.domain.chunking import choose_lane, pages_to_recognise, plan_chunks
from pipeline.domain.document import Lane, PageClass, PageFacts
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected
from pipeline.domain.memory import DoesNotFit
from pipeline.domain.options import JobOptions, LanePolicy, PoorLayers, parse_options
from pipeline.domain.page_selection import PageSelection
from pipeline.domain.profiles import Profile
from pipeline.ports.devices import DeviceInfo
from pipeline.ports.documents import DocumentInspector, Inspection
from pipeline.ports.jobs import ClaimedJob, JobSteps, QueueBounds
from pipeline.ports.objects import ObjectStore
from pipeline.steps.job_step import renewing


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkBounds:
    """How large a chunk may be."""

    target: timedelta
    max_pages: int
    short_job: timedelta
    """A job whose chunks take no longer than this together may overtake longer ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The step, over its ports."""

    jobs: JobSteps
    objects: ObjectStore
    inspector_for: Callable[[Profile], DocumentInspector]
    live_devices: Callable[[], Sequence[DeviceInfo]]
    bounds: ChunkBounds
    queue: QueueBounds
    renew_every: timedelta
    page_ms_of: Callable[[Lane, str | None], int]
    """Gives an engine's time for an A4 page at 200 dpi; if none is named, that of the lane's usual one."""
    memory_of: Callable[[str | None], tuple[EngineMemory, float] | None] = lambda _engine: None
    """Gives what an engine takes of an accelerator, the usual one if none is named, and how much more it proved to."""

    def __call__(self, job: ClaimedJob) -> None:
        """Plan the job's chunks. Raises: Rejected, if the document can't be opened, or it or the queue is too long."""
        options = parse_options(job.options)
        with self._local_copy(job) as path:
            self.jobs.renew(job.claim)
            inspector = self.inspector_for(options.profile)
            inspection = _selected(inspector.inspect(path, job.password), options.pages)
            inspection = _with_layers(inspection, options.poor_layers)
        devices = self.live_devices()
        lane = choose_lane(
            options.lane, inspection.facts, has_accelerator=any(device.kind != "cpu" for device in devices)
        )
        try:
            max_pages = self._max_pages(options, lane, devices, inspection.facts)
        except DoesNotFit as misfit:
            if options.lane is LanePolicy.GPU:
                raise
            lane, max_pages = Lane.CPU, self.bounds.max_pages
            self.jobs.note(job.claim, "job.sent_elsewhere", lane=lane, reason=misfit.message)
        chunks = plan_chunks(
            inspection.facts,
            lane=lane,
            target=self.bounds.target,
            max_pages=max_pages,
            page_ms=self.page_ms_of(lane, options.engine),
            devices=_serving(devices, lane),
        )
        takes = timedelta(milliseconds=sum(chunk.cost_ms for chunk in chunks))
        self.jobs.planned(job.claim, inspection, chunks, is_short=takes <= self.bounds.short_job, bounds=self.queue)

    def _max_pages(
        self, options: JobOptions, lane: Lane, devices: Sequence[DeviceInfo], facts: Sequence[PageFacts]
    ) -> int:
        """Return how many pages a chunk may have. Raises: DoesNotFit, if no device of the lane can read a page."""
        totals = [device.planned_bytes for device in devices if lane in device.lanes and device.planned_bytes]
        known = self.memory_of(options.engine) if totals else None
        if known is None or pages_to_recognise(facts) == 0:
            return self.bounds.max_pages
        model, correction = known
        time = ChunkTime(
            target=self.bounds.target,
            page=timedelta(milliseconds=self.page_ms_of(lane, options.engine)),
            max_pages=self.bounds.max_pages,
        )
        return chunk_pages(model, totals, facts, time=time, correction=correction)

    @contextmanager
    def _local_copy(self, job: ClaimedJob) -> Iterator[Path]:
        if job.sha256 is None:
            raise PipelineError(ErrorCode.INTERNAL, f"job {job.claim.job_id} is to be split and has no original")
        with tempfile.TemporaryDirectory(prefix="muniment-split-") as folder:
            path = Path(folder) / "original"
            with self.objects.get(keys.original(job.sha256)) as pieces, path.open("wb") as file:
                for piece in renewing(pieces, self.jobs, job.claim, self.renew_every):
                    file.write(piece)
            yield path


def _selected(inspection: Inspection, pages: PageSelection | None) -> Inspection:
    """Return what a document is to those who asked for a part of it. Raises: Rejected (`invalid_options`)."""
    if pages is None:
        return inspection
    try:
        numbers = set(pages.within(inspection.page_count))
    except ValueError as problem:
        raise Rejected(ErrorCode.INVALID_OPTIONS, f"pages {problem}") from problem
    facts = tuple(page for page in inspection.facts if page.number in numbers)
    return replace(inspection, page_count=len(facts), facts=facts)


def _with_layers(inspection: Inspection, policy: PoorLayers) -> Inspection:
    """Return what a document is to those who are content with the text that a poor recogniser left."""
    if policy is PoorLayers.REDO:
        return inspection
    facts = (
        replace(page, page_class=PageClass.TEXT_LAYER) if page.has_poor_layer else page for page in inspection.facts
    )
    return replace(inspection, facts=tuple(facts))


def _serving(devices: Sequence[DeviceInfo], lane: Lane) -> int:
    return sum(lane in device.lanes for device in devices)
