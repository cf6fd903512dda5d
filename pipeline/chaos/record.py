"""What a drill leaves, and how it is collected from servers that the last fault may have hit."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from pipeline.adapters.objects import S3Objects
from pipeline.chaos.recovery import Injected, Sample
from pipeline.chaos.verdict import Reading, ResultPage, Results
from pipeline.domain.errors import Rejected, Transient
from pipeline.domain.recognition import PageOutcome
from pipeline.ports.evidence import JobEvidence, RowEvidence

Answer = TypeVar("Answer")
_TRY_AGAIN_S = 0.3
_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a drill leaves."""

    injected: tuple[Injected, ...]
    left_out: tuple[str, ...]
    """Faults that could not strike, because the documents had ended."""
    absent: tuple[str, ...]
    """Processes that were to be hit and did not come back."""
    samples: tuple[Sample, ...]
    rows: RowEvidence
    results: Results
    readings: tuple[Reading, ...]
    took: timedelta


def results(objects: S3Objects, jobs: Iterable[JobEvidence]) -> Results:
    """Return the pages of all results that the jobs name. Raises: Transient, if the store stays away."""
    return {job.job_id: _pages(objects, job.result_key) for job in jobs if job.result_key}


def readings(journal: Path) -> Iterator[Reading]:
    """Yield the lines of the engine's journal."""
    if journal.exists():
        for line in journal.read_text().splitlines():
            device, pid = line.split()
            yield Reading(device=device, pid=int(pid))


def patiently(ask: Callable[[], Answer]) -> Answer:
    """Ask a server that the last fault may have hit. Raises: Transient, if it stays away."""
    deadline = time.monotonic() + _WITHIN.total_seconds()
    while True:
        try:
            return ask()
        except Transient:
            if time.monotonic() > deadline:
                raise
        time.sleep(_TRY_AGAIN_S)


def _pages(objects: S3Objects, key: str) -> list[ResultPage]:
    """Return the pages of a `document.json`; none if there is no such object."""

    def fetch() -> bytes:
        with objects.get(key) as pieces:
            return b"".join(pieces)

    try:
        document = json.loads(patiently(fetch))
    except Rejected:
        return []
    return [
        ResultPage(number=page["number"], outcome=PageOutcome(page["outcome"]), text=" ".join(page["text"].split()))
        for page in document["pages"]
    ]
