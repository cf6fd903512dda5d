"""What is answered on the port of a process."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from pipeline import __version__
from pipeline.monitoring.serving import FOLDER_VARIABLE


class Application:
    """The three paths."""

    def __init__(
        self, counts: CollectorRegistry | None, rows: CollectorRegistry | None, problem: Callable[[], str | None]
    ) -> None:
        self._metrics: WSGIApplication = make_wsgi_app(_joined(counts, rows))
        self._problem = problem

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        match environ["PATH_INFO"]:
            case "/metrics":
                return self._metrics(environ, start_response)
            case "/livez":
                return _answer(start_response, "200 OK", "lives")
            case "/readyz":
                problem = self._problem()
                return _answer(start_response, "503 Service Unavailable" if problem else "200 OK", problem or "ready")
            case _:
                return _answer(start_response, "404 Not Found", "/metrics, /livez and /readyz are here")


def _answer(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode() + b"\n"]


def _joined(counts: CollectorRegistry | None, rows: CollectorRegistry | None) -> CollectorRegistry:
    joined = CollectorRegistry()
    if FOLDER_VARIABLE in os.environ:
        MultiProcessCollector(joined)  # type: ignore[no-untyped-call]
    elif counts is not None:
        joined.register(counts)
    if rows is not None:
        joined.register(rows)
    ProcessCollector(registry=joined)
    joined.register(_Own())
    return joined


class _Own:
    """Version and disk."""

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("muniment_build_info", "Which version this is.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        disk = shutil.disk_usage(tempfile.gettempdir())
        yield GaugeMetricFamily("muniment_temporary_free_bytes", "Room left for temporary files.", value=disk.free)
        yield GaugeMetricFamily("muniment_temporary_bytes", "Size of the disk of temporary files.", value=disk.total)
