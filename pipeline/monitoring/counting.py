"""The counters of one process or, where the environment names a folder for that, of all processes that share it.

Import this only when `shared_folder` has been called, or nobody shares: the library decides once, as it is loaded,
where numbers live.
"""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import Step
from pipeline.ports.meter import AttemptEnded, StepEnded

_CHUNK_S = (0.5, 1, 2, 5, 10, 20, 40, 60, 90, 120, 180, 300, 600, 1200)
_PAGE_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)
_STEP_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 180, 600)


class PrometheusMeter:
    """Meter over prometheus_client. To be made once in each process, after its fork."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._attempts = Counter(
            "muniment_attempts", "Attempts at chunks that ended here.", ["outcome", "error_code"], registry=registry
        )
        self._pages = Counter("muniment_pages", "Pages that got their outcome here.", ["outcome"], registry=registry)
        self._chunk_s = Histogram(
            "muniment_chunk_seconds",
            "From the claim of a chunk to its end.",
            ["device", "outcome"],
            buckets=_CHUNK_S,
            registry=registry,
        )
        self._page_s = Histogram(
            "muniment_page_seconds", "Time that a page took.", ["engine"], buckets=_PAGE_S, registry=registry
        )
        self._tokens = Counter("muniment_tokens", "Tokens generated for pages.", ["engine"], registry=registry)
        self._peak = Gauge(
            "muniment_chunk_peak_bytes",
            "Most memory that a chunk took on a device since this began to count.",
            ["device"],
            multiprocess_mode="max",
            registry=registry,
        )
        self._steps = Counter(
            "muniment_steps", "Steps of jobs that ended here.", ["step", "error_code"], registry=registry
        )
        self._step_s = Histogram(
            "muniment_step_seconds",
            "From the claim of a step to its end.",
            ["step"],
            buckets=_STEP_S,
            registry=registry,
        )
        self._lines = Counter(
            "muniment_log_lines",
            "Lines of the log, by what they tell; those below `log.level` but not below INFO are counted, too.",
            ["level", "event"],
            registry=registry,
        )
        # What begins at zero is seen to rise by its first event; of what begins at one, the rise is lost.
        for outcome in PageOutcome:
            self._pages.labels(outcome)
        for step in Step:
            self._steps.labels(step, "")
            self._step_s.labels(step)
        self._peaks: dict[str, int] = {}

    def attempt_ended(self, ended: AttemptEnded) -> None:
        """Count an attempt at a chunk."""
        self._attempts.labels(ended.outcome, ended.error_code or "").inc()
        self._chunk_s.labels(ended.device, ended.outcome).observe(ended.seconds)
        for outcome, pages in ended.pages.items():
            self._pages.labels(outcome).inc(pages)
        if ended.peak_bytes is not None and ended.peak_bytes > self._peaks.get(ended.device, 0):
            self._peaks[ended.device] = ended.peak_bytes
            self._peak.labels(ended.device).set(ended.peak_bytes)

    def page_read(self, engine: str, seconds: float, tokens: int | None) -> None:
        """Count the time that a page took, and what was generated for it."""
        self._page_s.labels(engine).observe(seconds)
        if tokens is not None:
            self._tokens.labels(engine).inc(tokens)

    def step_ended(self, ended: StepEnded) -> None:
        """Count a claimed step of a job."""
        self._steps.labels(ended.step, ended.error_code or "").inc()
        self._step_s.labels(ended.step).observe(ended.seconds)

    def close(self) -> None:
        """Do nothing: the numbers stay with whoever serves them."""

    def line_logged(self, level: str, line: Mapping[str, Any]) -> None:
        """Count a line of our log; its event is one of the constants that stand in the code."""
        self._lines.labels(level, line["event"]).inc()
