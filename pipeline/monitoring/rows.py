"""The figures of the rows as Prometheus wants them."""

import threading
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric

from pipeline.adapters.figures import DeviceFigures, Figures, LaneFigures, PostgresFigures
from pipeline.domain.document import Lane
from pipeline.domain.errors import Transient
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import AttemptOutcome, ChunkState, DeviceState, JobState
from pipeline.domain.webhooks import DeliveryState

log = structlog.get_logger()
_OPEN = (ChunkState.READY, ChunkState.ADMITTED, ChunkState.RUNNING)
_NOTHING = LaneFigures(chunks={}, pages=0, seconds=0.0, age_s=0.0)
_SHARE_OF_TIME = 20
"""Reading takes the database no more than one part in so many of the time, however large the backlog is."""


class RowsCollector:
    """Collects figures for as many as ask; reads the rows anew no more often than it is told to."""

    def __init__(
        self, figures: PostgresFigures, *, every: timedelta, cpu_bound_bytes: int, window: timedelta, most_tenants: int
    ) -> None:
        """Args: cpu_bound_bytes is what a runner on a CPU may hold; other devices have a size of their own."""
        self._figures = figures
        self._every = every.total_seconds()
        self._cpu_bound_bytes = cpu_bound_bytes
        self._window = window
        self._most_tenants = most_tenants
        self._one_at_a_time = threading.Lock()
        self._known: Figures | None = None
        self._again_at = 0.0

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; without the database, only that it is away."""
        with self._one_at_a_time:
            self._read()
            known = self._known
        up = known is not None
        yield GaugeMetricFamily("muniment_rows_up", "Whether the rows could be read.", value=float(up))
        if known is not None:
            yield from self._metrics(known)

    def describe(self) -> list[Metric]:
        """Return nothing: at registration the database need not be asked."""
        return []

    def _read(self) -> None:
        begun = time.monotonic()
        if begun < self._again_at:
            return
        try:
            self._known = self._figures.read()
        except Transient as error:
            self._known = None
            log.warning("rows_not_read", detail=error.message)
        ended = time.monotonic()
        self._again_at = ended + max(self._every, _SHARE_OF_TIME * (ended - begun))

    def _metrics(self, known: Figures) -> Iterator[Metric]:
        open_states = {state: known.open_jobs.get(state, 0) for state in JobState if not state.is_terminal}
        yield _gauge("muniment_jobs", "Jobs that have not ended.", ["state"], open_states)
        yield from self._ended(known)
        yield from _lanes(known)
        ages = {lane: known.lanes.get(lane, _NOTHING).age_s for lane in Lane} | {"io": known.step_age_s}
        yield _gauge("muniment_queue_age_seconds", "How long the oldest has waited that may go on.", ["queue"], ages)
        yield GaugeMetricFamily(
            "muniment_no_progress_seconds",
            "How long nothing has ended though something may go on; 0 when nothing waits.",
            value=known.no_progress_s,
        )
        yield from _devices(known.devices, self._cpu_bound_bytes)
        yield from self._deliveries(known)
        yield _gauge(
            "muniment_tenant_queued_pages", "Planned pages of open jobs.", ["tenant"], self._largest(known.tenants)
        )
        yield GaugeMetricFamily("muniment_database_bytes", "Size of the database.", value=known.database_bytes)

    def _ended(self, known: Figures) -> Iterator[Metric]:
        window = f"ended within the last {self._window}"
        labels = ["outcome", "error_code"]
        zero = {(state.value, ""): 0 for state in JobState if state.is_terminal}
        yield _gauge(
            "muniment_ended_jobs", f"Jobs that {window}.", ["state", "error_code"], zero | dict(known.ended_jobs)
        )
        zero = {(outcome.value, ""): 0 for outcome in PageOutcome}
        yield _gauge("muniment_ended_pages", f"Pages of jobs that {window}.", labels, zero | dict(known.ended_pages))
        zero = {(outcome.value, ""): 0 for outcome in AttemptOutcome}
        yield _gauge(
            "muniment_ended_attempts", f"Attempts at chunks that {window}.", labels, zero | dict(known.ended_attempts)
        )

    def _deliveries(self, known: Figures) -> Iterator[Metric]:
        yield GaugeMetricFamily("muniment_due_webhooks", "Webhooks that are to be sent.", value=known.deliveries.due)
        yield GaugeMetricFamily(
            "muniment_webhook_age_seconds", "How long the oldest of them has waited.", value=known.deliveries.age_s
        )
        zero = {(DeliveryState.DELIVERED.value, ""): 0, (DeliveryState.DEAD.value, ""): 0}
        yield _gauge(
            "muniment_ended_webhooks",
            f"Webhooks that ended within the last {self._window}.",
            ["state", "error_code"],
            zero | dict(known.deliveries.ended),
        )

    def _largest(self, tenants: Mapping[str, int]) -> dict[str, int]:
        """Return the tenants with most queued; the others as one, so that a scrape stays small."""
        names = list(tenants)
        rest = sum(tenants[name] for name in names[self._most_tenants :])
        return {name: tenants[name] for name in names[: self._most_tenants]} | {"(all others)": rest}


def _lanes(known: Figures) -> Iterator[Metric]:
    lanes = {lane: known.lanes.get(lane, _NOTHING) for lane in Lane}
    chunks: dict[tuple[str, ...], float] = {
        (lane, state): figures.chunks.get(state, 0) for lane, figures in lanes.items() for state in _OPEN
    }
    dead: dict[tuple[str, ...], float] = {(lane, ChunkState.DEAD): known.dead_chunks.get(lane, 0) for lane in Lane}
    yield _gauge(
        "muniment_chunks", "Chunks that have not ended, and those that died.", ["lane", "state"], chunks | dead
    )
    pages = {lane: figures.pages for lane, figures in lanes.items()}
    yield _gauge("muniment_queued_pages", "Pages of chunks that have not ended.", ["lane"], pages)
    seconds = {lane: figures.seconds for lane, figures in lanes.items()}
    yield _gauge(
        "muniment_queued_seconds", "Estimated work of chunks that have not ended, for one CPU slot.", ["lane"], seconds
    )


def _devices(devices: tuple[DeviceFigures, ...], cpu_bound_bytes: int) -> Iterator[Metric]:
    states = [*(state.value for state in DeviceState), "gone"]
    counted: dict[tuple[str, ...], float] = {
        (kind, state): sum(device.kind == kind and device.state == state for device in devices)
        for kind in ("cpu", "cuda")
        for state in states
    }
    yield _gauge("muniment_devices", "Devices by what they do.", ["kind", "state"], counted)
    sizes: dict[tuple[str, ...], float] = {}
    for device in devices:
        if device.state == "gone":
            continue
        bound = device.total_bytes or cpu_bound_bytes
        known = {"bound": bound, "baseline": device.baseline_bytes, "peak": device.peak_bytes}
        sizes |= {(device.device_id, what): float(size) for what, size in known.items() if size is not None}
    yield _gauge("muniment_device_bytes", "Memory when warm, at most, and what it may be.", ["device", "what"], sizes)


def _gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    """Args: keys of values are a label, or as many as there are labels."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(list(key) if isinstance(key, tuple) else [key], value)
    return family
