"""Traces of jobs by OpenTelemetry: what ended in this process, told as spans to a collector (OTLP over HTTP).

A trace has the id of its job, and its first span an id that follows from that one: so every process knows where its
spans belong, and nothing has to be handed from one to the next. Needs the extra `traces`.
"""

import secrets
import time
from collections.abc import Mapping
from importlib.util import find_spec

from pipeline.domain.document import JobId
from pipeline.ports.meter import AttemptEnded, Meter, StepEnded
from pipeline.settings import SettingsError, TraceSettings

_MOST_WAITING = 2048
"""Spans that wait for the collector; what comes on top of them is let go of."""
_COLLECTOR_S = 5
_SPAN_BITS = 64


def check_traces(settings: TraceSettings) -> None:
    """Make sure that what is to be told can be told. Raises: SettingsError."""
    if settings.endpoint is not None and find_spec("opentelemetry") is None:
        raise SettingsError("traces.endpoint is set, which needs the extra `traces`: pip install 'muniment[traces]'")


def traced(meter: Meter, settings: TraceSettings, *, process: str) -> Meter:
    """Return the meter or, where somebody wants to hear of it, one that tells spans besides.

    Call it after the fork: a thread of its own sends them.
    """
    return meter if settings.endpoint is None else TracingMeter(meter, str(settings.endpoint), process)


class TracingMeter:
    """Counts by another meter, and tells what ended as spans. Where the collector is away, spans are lost."""

    def __init__(self, meter: Meter, endpoint: str, process: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._meter = meter
        self._resource = Resource.create({"service.name": "muniment", "service.instance.id": process})
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_COLLECTOR_S)
        self._spans = BatchSpanProcessor(exporter, max_queue_size=_MOST_WAITING)

    def attempt_ended(self, ended: AttemptEnded) -> None:
        """Tell of an attempt at a chunk, and count it."""
        self._meter.attempt_ended(ended)
        attributes: dict[str, str | int] = {
            "muniment.chunk.id": str(ended.chunk_id),
            "muniment.attempt": ended.attempt,
            "muniment.outcome": ended.outcome,
            "muniment.device": ended.device,
            **{f"muniment.pages.{outcome}": pages for outcome, pages in ended.pages.items()},
        }
        if ended.peak_bytes is not None:
            attributes["muniment.peak_bytes"] = ended.peak_bytes
        if ended.tokens is not None:
            attributes["muniment.tokens"] = ended.tokens
        self._tell("recognise", ended.job_id, ended.seconds, attributes, error_code=ended.error_code)

    def page_read(self, engine: str, seconds: float, tokens: int | None) -> None:
        """Count the time that a page took, and what was generated for it."""
        self._meter.page_read(engine, seconds, tokens)

    def step_ended(self, ended: StepEnded) -> None:
        """Tell of a claimed step of a job and, where that was its end, of the job; and count it."""
        self._meter.step_ended(ended)
        code = ended.error_code
        self._tell(ended.step, ended.job_id, ended.seconds, {"muniment.attempt": ended.attempt}, error_code=code)
        if ended.job_took is not None:
            self._tell("job", ended.job_id, ended.job_took.total_seconds(), {}, error_code=code, is_whole=True)

    def close(self) -> None:
        """Send what is still to be told, and end the thread."""
        self._meter.close()
        self._spans.shutdown()  # type: ignore[no-untyped-call]

    def _tell(
        self,
        name: str,
        job_id: JobId,
        seconds: float,
        attributes: Mapping[str, str | int],
        *,
        error_code: str | None,
        is_whole: bool = False,
    ) -> None:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        def place(span_id: int, *, is_remote: bool) -> SpanContext:
            return SpanContext(job_id.int, span_id, is_remote=is_remote, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        whole = job_id.int & (2**_SPAN_BITS - 1)
        ended_at = time.time_ns()
        told = {"muniment.job.id": str(job_id), **attributes}
        self._spans.on_end(
            ReadableSpan(
                name=name,
                context=place(whole if is_whole else secrets.randbits(_SPAN_BITS) or 1, is_remote=False),
                parent=None if is_whole else place(whole, is_remote=True),
                resource=self._resource,
                attributes=told if error_code is None else {**told, "error.type": error_code},
                start_time=ended_at - round(seconds * 1e9),
                end_time=ended_at,
                status=Status(StatusCode.UNSET if error_code is None else StatusCode.ERROR),
            )
        )
