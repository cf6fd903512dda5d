"""What an engine takes of time and memory on one machine, as `muniment bench` measured it."""

from dataclasses import dataclass

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One measurement of an engine; times are milliseconds, of a page from its rendering to its text."""

    engine: str
    revision: str
    settings_digest: str
    device: str
    """What it computed on: `cpu`, or the accelerator's name."""
    document_sha256: str
    pages: int
    """That the engine read."""
    warm_up_s: float
    pages_per_s: float
    page_ms_p50: float
    page_ms_p95: float
    page_ms_p99: float
    a4_page_ms: int
    """For an A4 page at 200 dpi, in proportion to the pixels read: what planning counts with."""
    baseline_bytes: int
    """Held when it was warm: of an accelerator if it has one, else of the host."""
    peak_bytes: int
    after_bytes: int
    reserved_bytes: int | None
    tokens_per_s: float | None = None
    """That it generated, over all that were read together; None of engines that generate none, and of older files."""
