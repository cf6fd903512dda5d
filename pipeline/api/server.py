"""The process: all ports in one event loop, and what has to be done beside answering."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial

import structlog
import uvicorn
import uvloop
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from pipeline.adapters.fitness import check_database, check_store
from pipeline.adapters.removals import PostgresRemovals
from pipeline.api.application import for_administrators, for_callers
from pipeline.api.metrics import Metrics
from pipeline.api.service import Service
from pipeline.domain import keys
from pipeline.domain.errors import PipelineError
from pipeline.logs import configure_logs
from pipeline.monitoring.serving import MetricsServer
from pipeline.settings import Settings, SettingsError, read_settings
from pipeline.starting import exit_code_of, keep_for_good, until_fit
from pipeline.steps.delete import Delete

log = structlog.get_logger()
_BACKLOG = 2048
_GRACE_S = 10
_SWITCH_EVERY_S = 0.001
"""How long a thread that reads rows may hold the interpreter while the event loop waits; 0.005 is usual."""
_TIDY_EVERY = timedelta(minutes=1)


class _Server(uvicorn.Server):
    """One port; signals are for all of them together."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: Settings, metrics: Metrics) -> None:
    """Answer until SIGTERM or SIGINT. Raises: SettingsError, if a port can't be had."""
    service, api = Service(settings, metrics), settings.api
    applications = [(for_callers(service), api.host, api.port)]
    if api.admin_port:
        applications.append((for_administrators(service), api.admin_host, api.admin_port))
    with contextlib.ExitStack() as opened:
        opened.callback(service.close)
        listening = [(app, opened.enter_context(_listen(host, port))) for app, host, port in applications]
        servers = [(_Server(_config(app, settings)), listener) for app, listener in listening]

        def stop() -> None:
            # Streams end by themselves then; nobody would wait for them.
            service.feed.close()
            for server, _ in servers:
                server.should_exit = True

        # A collection that walked through all that would hold every caller up.
        keep_for_good()
        with _told_to_stop(stop):
            async with service.feed.running(), contextlib.aclosing(service.reader), _tidying(service):
                log.info("api_started", host=api.host, port=api.port, admin_port=api.admin_port)
                await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in servers))


def _config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    proxies = settings.api.trusted_proxies
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        # Else anybody on this host could say that he comes from elsewhere.
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_graceful_shutdown=_GRACE_S,
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(f"can't listen on {host} port {port}: {error.strerror} (api.host, api.port)") from error


@contextlib.contextmanager
def _told_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _tidying(service: Service) -> AsyncIterator[None]:
    """Go after what deleted jobs and cut uploads left behind, from time to time; any number of processes may."""
    task = asyncio.create_task(_tidy(service))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _tidy(service: Service) -> None:
    delete = Delete(rows=PostgresRemovals(service.engine), objects=service.objects)
    while True:
        try:
            await run_in_threadpool(delete.sweep)
            await run_in_threadpool(_give_up_uploads, service)
        except PipelineError as error:
            log.warning("tidying_put_off", code=error.code, detail=error.message)
        await asyncio.sleep(_TIDY_EVERY.total_seconds())


def _give_up_uploads(service: Service) -> None:
    """Abort what has been coming in for so long that it comes from nobody any more."""
    age = service.settings.retention.uploads
    service.uploads.abort_older(keys.UPLOADS, age)
    service.open_uploads.remove_older(age)


def run(settings: Settings) -> None:
    """Run the API until SIGTERM or SIGINT. Raises: SettingsError, Unfit."""
    configure_logs(settings.log, worker="api")
    metrics = Metrics()
    MetricsServer(settings.metrics).start(counts=metrics.registry)
    checks = (partial(check_database, settings.database), partial(check_store, settings.objects))
    until_fit(checks, settings.start.patience)
    sys.setswitchinterval(_SWITCH_EVERY_S)
    uvloop.run(serve(settings, metrics))


def main() -> int:
    """Run the API of the command line."""
    return exit_code_of("api", lambda: run(read_settings()))


if __name__ == "__main__":
    sys.exit(main())
