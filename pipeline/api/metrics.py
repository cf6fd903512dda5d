"""What the API counts about itself, for Prometheus. Labels are routes and statuses: no ids, no names.

Import this only when it is settled where numbers live, see `monitoring/counting.py`.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 30, 300)


class Metrics:
    """The numbers of one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "muniment_api_requests", "Requests that were answered.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "muniment_api_request_seconds",
            "From a request to the end of its answer.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.received = Counter("muniment_api_received_bytes", "Bytes of requests' bodies.", registry=registry)
        self.streams = Gauge(
            "muniment_api_streams",
            "Streams of events that are open.",
            multiprocess_mode="livesum",
            registry=registry,
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)
