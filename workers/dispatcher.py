"""The dispatcher: a process that moves due rows onto the broker and sweeps; any number of them may run.

It wakes by NOTIFY and by a poll, because a notification is a hint like any other message.
"""

import math
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta

import psycopg
import structlog

from pipeline.adapters.database import driver_url
from pipeline.domain.errors import PipelineError, Transient
from pipeline.logs import configure_logs
from pipeline.monitoring.counting import PrometheusMeter
from pipeline.monitoring.serving import Beat, MetricsServer
from pipeline.ports.dispatch import Patience
from pipeline.settings import DispatcherSettings, Settings, read_settings
from pipeline.starting import exit_code_of
from pipeline.steps.admit import Admit, Windows
from pipeline.steps.sweep import Sweep
from workers.app import create_app
from workers.chains import CeleryChains
from workers.startup import check_services
from workers.webhook_senders import WebhookSenders
from workers.wiring import Wiring

log = structlog.get_logger()
CHANNEL = "muniment"
_GATE = timedelta(seconds=2)
"""How often the store is asked whether it is there, while there is work to send or not."""
_LONGEST_ROUND = timedelta(minutes=1)
_LAST_ROUND = timedelta(seconds=5)
"""What a stop waits for; a removal that is cut off is done again by the next dispatcher."""
_WEBHOOK_POLL = timedelta(seconds=1)
_TIDY_EVERY = timedelta(minutes=1)
_BUSY_POLL = timedelta(milliseconds=100)
"""While messages go out there is a backlog, and each chunk that ends makes room for the next."""


class Doorbell:
    """Waits for Postgres to notify; reconnects when the connection is lost, and until then only time wakes."""

    def __init__(self, url: str) -> None:
        self._url = driver_url(url)
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    def wait(self, timeout: timedelta, stopping: threading.Event) -> None:
        """Return at a notification, at the latest after the timeout."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=5)
                self._connection.execute(f"LISTEN {CHANNEL}")
                return
            for _ in self._connection.notifies(timeout=timeout.total_seconds(), stop_after=1):
                pass
        except psycopg.Error as error:
            log.warning("doorbell_lost", detail=type(error).__name__)
            self.close()
            stopping.wait(timeout.total_seconds())

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Gate:
    """Lets admission pass while a check does; what passed lately is not checked again."""

    def __init__(self, check: Callable[[], None], *, every: timedelta) -> None:
        self._check = check
        self._every = every
        self._passed = -math.inf

    def __call__(self) -> None:
        """Raises: Transient, as the check does."""
        if time.monotonic() - self._passed > self._every.total_seconds():
            self._check()
            self._passed = time.monotonic()


class Rounds:
    """Does something again and again in a thread of its own, so that whatever it waits for holds up no document."""

    def __init__(self, name: str, work: Callable[[], int], *, every: timedelta) -> None:
        """Args: name begins the events of its log; work returns how much it has done, and is called until that is 0."""
        self._put_off, self._broke = f"{name}_put_off", f"{name}_broke"
        self._work = work
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_LAST_ROUND.total_seconds())

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                while self._work() and not self._stopping.is_set():
                    pass
            except PipelineError as error:
                log.warning(self._put_off, code=error.code, detail=error.message)
            except Exception:  # the border of the thread: the next round may fare better
                log.exception(self._broke)
            self._stopping.wait(self._every.total_seconds())


class Dispatcher:
    """The loop."""

    def __init__(
        self,
        *,
        admit: Callable[[], int],
        sweep: Callable[[], None],
        doorbell: Doorbell,
        beside: Sequence[AbstractContextManager[None]],
        beat: Callable[[], None],
        settings: DispatcherSettings,
    ) -> None:
        """Args: beside is done as long as it runs; beat is called after each round in which nothing was away."""
        self._admit = admit
        self._sweep = sweep
        self._doorbell = doorbell
        self._beside = beside
        self._beat = beat
        self._settings = settings
        self.stopping = threading.Event()

    def run(self) -> None:
        """Admit, sweep and do what is to be done beside that until `stopping` is set."""
        with ExitStack() as running:
            for each in self._beside:
                running.enter_context(each)
            self._move_rows()
        self._doorbell.close()

    def _move_rows(self) -> None:
        next_sweep = 0.0
        while not self.stopping.is_set():
            pause = self._settings.poll
            try:
                if time.monotonic() >= next_sweep:
                    self._sweep()
                    next_sweep = time.monotonic() + self._settings.sweep.total_seconds()
                if self._admit():
                    pause = _BUSY_POLL
                self._beat()
            except Transient as error:
                log.warning("dispatch_put_off", code=error.code, detail=error.message)
                self.stopping.wait(self._settings.poll.total_seconds())
                continue
            self._doorbell.wait(pause, self.stopping)


def build(settings: Settings, beat: Callable[[], None]) -> Dispatcher:
    """Return a dispatcher over the real services. Raises: SettingsError."""
    wiring = Wiring(settings, actor="dispatcher")
    queue = CeleryChains(create_app(settings))
    dispatch, limits = settings.dispatcher, settings.limits
    admit = Admit(
        rows=wiring.admissions,
        queue=queue,
        windows=Windows(
            io=dispatch.io_window,
            per_slot=dispatch.window_per_slot,
            most_per_slot=dispatch.most_per_slot,
            ahead=dispatch.ahead,
            short_share=dispatch.short_share,
        ),
        check_services=Gate(wiring.objects.check, every=_GATE),
    )
    sweep = Sweep(
        rows=wiring.sweeps,
        queue=queue,
        admit=admit,
        limits=wiring.limits,
        patience=Patience(longest_job=limits.longest_job, longest_wait=limits.longest_wait),
        resend_after=settings.leases.resend,
        jitter=random.random,
    )
    url = wiring.engine.url.render_as_string(hide_password=False)
    beside = (
        Rounds("expiry", wiring.expire, every=settings.retention.every),
        WebhookSenders(wiring.send_webhooks, threads=settings.webhooks.at_once, every=_WEBHOOK_POLL, last=_LAST_ROUND),
        Rounds("webhook_tidying", wiring.deliveries.tidy, every=_TIDY_EVERY),
    )
    return Dispatcher(
        admit=admit, sweep=sweep, doorbell=Doorbell(url), beside=beside, beat=beat, settings=settings.dispatcher
    )


def run(settings: Settings) -> None:
    """Run a dispatcher until SIGTERM or SIGINT. Raises: SettingsError, Unfit."""
    meter = PrometheusMeter()
    configure_logs(settings.log, count=meter.line_logged, worker="dispatcher")
    rounds = Beat("the moving of rows", within=_LONGEST_ROUND)
    server = MetricsServer(settings.metrics, rounds.problem)
    server.start(counts=meter.registry)
    check_services(settings)
    dispatcher = build(settings, rounds)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: dispatcher.stopping.set())
    log.info("dispatcher_started")
    dispatcher.run()


def main() -> int:
    """Run the dispatcher of the command line."""
    return exit_code_of("dispatcher", lambda: run(read_settings()))


if __name__ == "__main__":
    sys.exit(main())
