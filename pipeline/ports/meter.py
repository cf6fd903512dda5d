"""What is counted of the work that a process does; what the rows say of all processes is another matter."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import AttemptOutcome, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """One claim of a chunk, as its `chunk_attempt` says it."""

    device: str
    """Its name on this host, e.g. `cpu:0`."""
    outcome: AttemptOutcome
    error_code: str | None
    pages: Mapping[PageOutcome, int]
    """Pages that got their outcome in it; given up ones are among the failed."""
    seconds: float
    peak_bytes: int | None


class Meter(Protocol):
    """Counts. Never raises, and never waits."""

    def attempt_ended(self, ended: AttemptEnded) -> None:
        """Count an attempt at a chunk."""

    def page_read(self, engine: str, seconds: float) -> None:
        """Count the time that a page took."""

    def step_ended(self, step: Step, error_code: str | None, seconds: float) -> None:
        """Count a claimed step of a job; without a code it was done."""


class Uncounted:
    """Counts nothing, for where nobody asks."""

    def attempt_ended(self, ended: AttemptEnded) -> None: ...  # noqa: D102

    def page_read(self, engine: str, seconds: float) -> None: ...  # noqa: D102

    def step_ended(self, step: Step, error_code: str | None, seconds: float) -> None: ...  # noqa: D102
