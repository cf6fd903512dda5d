"""What is counted of the work that a process does; what the rows say of all processes is another matter."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from pipeline.domain.document import ChunkId, JobId
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import AttemptOutcome, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded:
    """One claim of a step of a job."""

    job_id: JobId
    step: Step
    attempt: int
    error_code: str | None
    """Without one it was done."""
    seconds: float
    job_took: timedelta | None
    """From the job's row to its end, where this was that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """One claim of a chunk, as its `chunk_attempt` says it."""

    job_id: JobId
    chunk_id: ChunkId
    attempt: int
    device: str
    """Its name on this host, e.g. `cpu:0`."""
    outcome: AttemptOutcome
    error_code: str | None
    pages: Mapping[PageOutcome, int]
    """Pages that got their outcome in it; given up ones are among the failed."""
    seconds: float
    peak_bytes: int | None
    tokens: int | None
    """Generated for those pages; None where the engine generates none."""


class Meter(Protocol):
    """Counts. Never raises, and never waits, but at its end."""

    def attempt_ended(self, ended: AttemptEnded) -> None:
        """Count an attempt at a chunk."""

    def page_read(self, engine: str, seconds: float, tokens: int | None) -> None:
        """Count the time that a page took, and what was generated for it."""

    def step_ended(self, ended: StepEnded) -> None:
        """Count a claimed step of a job."""

    def close(self) -> None:
        """Let go of what it holds; nothing is counted afterwards."""


class Uncounted:
    """Counts nothing, for where nobody asks."""

    def attempt_ended(self, ended: AttemptEnded) -> None: ...  # noqa: D102

    def page_read(self, engine: str, seconds: float, tokens: int | None) -> None: ...  # noqa: D102

    def step_ended(self, ended: StepEnded) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102
