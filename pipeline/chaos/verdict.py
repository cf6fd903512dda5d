"""Judges a drill: compares what was handed in with what the rows, the results and the engine's journal say."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from pipeline.chaos.documents import EXPECTED, expected_text
from pipeline.chaos.schedule import Document
from pipeline.domain.document import JobId
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import AttemptOutcome, JobState
from pipeline.ports.evidence import AttemptEvidence, JobEvidence, RowEvidence

_FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """A page of a `document.json`."""

    number: int
    outcome: PageOutcome
    text: str
    """Its words, joined by single spaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One line of the engine's journal: this process began a page on this device."""

    device: str
    pid: int


Results = Mapping[JobId, Sequence[ResultPage]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What should not be; each finding is a sentence."""

    lost: tuple[str, ...] = ()
    """One for each page that has no result, another one than it must have, or another text."""
    doubled: tuple[str, ...] = ()
    """One for each page that is there twice, or was entered twice."""
    stuck: tuple[str, ...] = ()
    """One for each row that has not ended, and each process that did not come back."""
    overlaps: tuple[str, ...] = ()
    """One for each two chunks that a device had at once."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.lost or self.doubled or self.stuck or self.overlaps)


def judge(
    documents: Sequence[Document],
    rows: RowEvidence,
    results: Results,
    *,
    readings: Sequence[Reading] = (),
    absent: Sequence[str] = (),
) -> Verdict:
    """Return what is wrong.

    Args: results has the pages of each job that has a `document.json`; readings are in the order of their writing;
        absent has a sentence for each process that did not come back.
    """
    jobs: dict[str, list[JobEvidence]] = defaultdict(list)
    for job in rows.jobs:
        jobs[job.source_name].append(job)
    return Verdict(
        lost=tuple(finding for document in documents for finding in _lost(document, jobs[document.name], results)),
        doubled=(
            *(finding for document in documents for finding in _twice(document, jobs[document.name], results)),
            *_entered_twice(rows),
        ),
        stuck=(*_stuck(rows), *absent),
        overlaps=(*_overlapping_attempts(rows.attempts), *_overlapping_processes(readings)),
    )


def _lost(document: Document, jobs: Sequence[JobEvidence], results: Results) -> Iterator[str]:
    if not jobs:
        yield from (f"{document.name} page {number}: there is no job" for number in _numbers(document))
        return
    job = jobs[0]
    if not document.pages:
        if job.state is not JobState.REJECTED:
            yield f"{document.name} is no document and was not rejected: {job.state}"
        return
    ledger = {page.number: page for page in job.ledger}
    result = {page.number: page for page in results.get(job.job_id, ())}
    for number, kind in enumerate(document.pages, start=1):
        page, shown = ledger.get(number), result.get(number)
        outcome, code = EXPECTED[kind]
        where = f"{document.name} page {number} ({kind})"
        if page is None or page.outcome is None:
            yield f"{where}: no outcome; its job is {job.state} ({job.error_code})"
        elif (page.outcome, page.error_code) != (outcome, code):
            yield f"{where}: ended as {page.outcome} ({page.error_code})"
        elif shown is None:
            yield f"{where}: not in the result; its job is {job.state} ({job.error_code})"
        elif shown.outcome is not outcome or shown.text != expected_text(kind, number):
            yield f"{where}: the result has {shown.outcome} with {len(shown.text)} characters"


def _twice(document: Document, jobs: Sequence[JobEvidence], results: Results) -> Iterator[str]:
    for _ in jobs[1:]:
        yield from (f"{document.name} page {number}: the document has another job" for number in _numbers(document))
    for job in jobs:
        if job.merges > 1:
            yield f"{document.name}: was merged {job.merges} times"
        counted = Counter(page.number for page in results.get(job.job_id, ()))
        for number, times in counted.items():
            if times > 1 or number > len(document.pages):
                yield f"{document.name} page {number}: {times} times in the result of {len(document.pages)} pages"


def _entered_twice(rows: RowEvidence) -> Iterator[str]:
    entered: Counter[JobId] = Counter()
    for attempt in rows.attempts:
        entered[attempt.job_id] += attempt.pages_done
    for job in rows.jobs:
        there = sum(page.outcome is not None for page in job.ledger)
        for _ in range(entered[job.job_id] - there):
            yield f"{job.source_name}: {entered[job.job_id]} pages were entered, and there are {there}"


def _stuck(rows: RowEvidence) -> Iterator[str]:
    for job in rows.jobs:
        if not job.state.is_terminal:
            yield f"job {job.job_id} of {job.source_name} is {job.state} ({job.error_code})"
    for chunk in rows.chunks:
        if not chunk.state.is_terminal:
            yield f"chunk {chunk.chunk_id} of job {chunk.job_id} is {chunk.state}"
    for attempt in rows.attempts:
        if attempt.ended_at is None:
            yield f"attempt {attempt.attempt} at chunk {attempt.chunk_id} on {attempt.device_id} has no end"


def _overlapping_attempts(attempts: Sequence[AttemptEvidence]) -> Iterator[str]:
    """Compare claims of the same device, in the order of their start.

    Of a lost attempt it is known when it was taken back, not when its process died: the journal stands in for it.
    """
    by_device: dict[str, list[AttemptEvidence]] = defaultdict(list)
    for attempt in attempts:
        if attempt.outcome is not AttemptOutcome.LOST:
            by_device[attempt.device_id].append(attempt)
    for device_id, claimed in by_device.items():
        for earlier, later in pairwise(sorted(claimed, key=lambda attempt: attempt.started_at)):
            if later.started_at < (earlier.ended_at or _FOR_EVER):
                yield f"{device_id} claimed chunk {later.chunk_id} while it had {earlier.chunk_id}"


def _overlapping_processes(readings: Sequence[Reading]) -> Iterator[str]:
    """Find devices on which a process read on after another one had begun there."""
    before: dict[str, list[int]] = defaultdict(list)
    for reading in readings:
        turns = before[reading.device]
        if turns and turns[-1] == reading.pid:
            continue
        if reading.pid in turns:
            yield f"on {reading.device} process {reading.pid} went on reading while {turns[-1]} had the device"
        turns.append(reading.pid)


def _numbers(document: Document) -> range:
    return range(1, len(document.pages) + 1)
