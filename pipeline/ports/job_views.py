"""Jobs, pages and batches as those see them who watch."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pipeline.domain.document import PageClass
from pipeline.domain.recognition import Flag, PageOutcome, PageSource
from pipeline.domain.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRow:
    """A page, as the ledger has it."""

    number: int
    page_class: PageClass
    source_file: str | None
    """The file of an archive that it comes from."""
    outcome: PageOutcome | None
    flags: tuple[Flag, ...]
    confidence: float | None
    angle_deg: float | None
    width_px: int | None
    height_px: int | None
    dpi: float | None
    engine: str | None
    revision: str | None
    elapsed_ms: int | None
    source: PageSource | None
    """Where it was taken over from, if it was."""
    error_code: str | None
    error_detail: str | None
    segment_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job is."""

    state: JobState
    page_count: int | None
    outcomes: Mapping[PageOutcome, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """The jobs of a tenant under one label."""

    label: str
    paused: bool
    priority: int | None
    deadline: datetime | None
    hours: str | None
    created_at: datetime
    jobs: Mapping[JobState, int]
    pages: int
    """Of the jobs that are planned."""
    outcomes: Mapping[PageOutcome, int]
