"""The process `muniment metrics`: serves what the rows say, and what processes have counted that share its folder."""

import signal
import sys
import threading
from functools import partial

import structlog
from prometheus_client import CollectorRegistry, generate_latest

from pipeline.adapters.database import connect
from pipeline.adapters.figures import PostgresFigures
from pipeline.adapters.fitness import check_database
from pipeline.logs import configure_logs
from pipeline.monitoring.rows import RowsCollector
from pipeline.monitoring.serving import MetricsServer
from pipeline.settings import Settings, SettingsError, read_settings
from pipeline.starting import exit_code_of, until_fit

log = structlog.get_logger()


def rows_of(settings: Settings) -> CollectorRegistry:
    """Return a registry that reads the rows. Raises: SettingsError, if no database is named."""
    if settings.database.url is None:
        raise SettingsError("database.url is not set: start the embedded stack (muniment up), or name a Postgres")
    engine = connect(settings.database.url.get_secret_value(), actor="muniment metrics", pool_size=1)
    metrics = settings.metrics
    collector = RowsCollector(
        PostgresFigures(engine, metrics.window),
        every=metrics.every,
        cpu_bound_bytes=settings.devices.max_runner_bytes,
        window=metrics.window,
        most_tenants=metrics.tenants,
    )
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def once(settings: Settings) -> str:
    """Return what the rows say now, in Prometheus' text format. Raises: SettingsError."""
    return generate_latest(rows_of(settings)).decode()


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises: SettingsError, if the port can't be had or none is set; Unfit."""
    configure_logs(settings.log, worker="metrics")
    if not settings.metrics.port:
        raise SettingsError("metrics.port is not set: name the port to serve on, 9464 for example")
    server = MetricsServer(settings.metrics)
    until_fit((partial(check_database, settings.database),), settings.start.patience)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    server.start(rows=rows_of(settings))
    log.info("metrics_started", host=settings.metrics.host, port=settings.metrics.port)
    stopping.wait()


def main() -> int:
    """Run the process of the command line."""
    return exit_code_of("metrics", lambda: run(read_settings()))


if __name__ == "__main__":
    sys.exit(main())
