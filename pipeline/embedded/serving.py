"""The life of a stack, inside its supervisor process: servers, then what makes them usable, then the work."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pipeline.cores import keep_off
from pipeline.embedded.composition import (
    ApiPorts,
    api_process,
    flower_process,
    metrics_process,
    pipeline_processes,
    process_environment,
)
from pipeline.embedded.credentials import load_or_create
from pipeline.embedded.errors import HomeInUse, StackError
from pipeline.embedded.files import private_folder
from pipeline.embedded.liveness import ProcessIdentity, end, identify, wait_for_end
from pipeline.embedded.locks import FileLock
from pipeline.embedded.ports import is_free
from pipeline.embedded.preparing import preparer
from pipeline.embedded.services import EmbeddedServers, ServerOptions, Servers, on_free_ports
from pipeline.embedded.state import (
    ApiAccess,
    FlowerAccess,
    Phase,
    ProcessState,
    StackState,
    read_state_of_any_age,
    remove_state,
    write_state,
)
from pipeline.embedded.supervisor import Supervisor
from pipeline.monitoring.serving import FOLDER_VARIABLE, empty_folder
from pipeline.settings import Settings

SUPERVISOR_LOCK = "supervisor.lock"
ATTACHED_LOCK = "attached.lock"
"""Held, shared, by each process that uses a stack which ends with its last user."""

_ATTACHED_POLL = timedelta(seconds=0.25)
_ORPHANS_WITHIN = timedelta(seconds=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """What is started, and for how long."""

    with_flower: bool = False
    with_api: bool = False
    cpu_slots: int | None = None
    dispatchers: int = 1
    while_attached: bool = False
    only_servers: bool = False
    """Neither schema nor bucket nor pipeline processes: for tests."""
    servers: ServerOptions = field(default_factory=ServerOptions)


async def serve(
    home: Path,
    settings: Settings,
    *,
    options: StackOptions,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Run a stack until this process is told to stop (SIGTERM, SIGINT, SIGHUP); nothing is left running then.

    Servers that the settings name are used, the others are started. To be called in the main thread.

    Raises: HomeInUse, when another supervisor owns the home; StackError; SettingsError.
    """
    private_folder(home)
    lock = FileLock.acquire(home / SUPERVISOR_LOCK, within=timedelta(seconds=1))
    if lock is None:
        raise HomeInUse(f"a stack runs in {home} already; attach to it, stop it (`muniment down`) or set MUNIMENT_HOME")
    try:
        await asyncio.to_thread(_end_orphans, home)
        keep_off(settings.devices.cpu_cores)
        remove_state(home)
        async with _told_to_stop() as told:
            await _Stack(home, settings, options).run(told, on_ready)
    finally:
        lock.release()


class _Stack:
    def __init__(self, home: Path, settings: Settings, options: StackOptions) -> None:
        supervisor = identify(os.getpid())
        if supervisor is None:
            raise StackError("there is no /proc here; the embedded stack needs Linux")
        self._home = home
        self._settings = settings
        self._options = options
        self._identity: ProcessIdentity = supervisor
        self._phase = Phase.STARTING
        self._servers: Servers | None = None
        self._api: ApiAccess | None = None
        self._flower: FlowerAccess | None = None
        self._nobody_attached: FileLock | None = None
        self._known_down: set[str] = set()
        self._credentials = load_or_create(home)
        self._supervisor = Supervisor(logs=private_folder(home / "logs"), on_change=self._write_state)
        self._embedded = EmbeddedServers(self._supervisor, home, self._credentials, options.servers)

    async def run(self, told: asyncio.Event, on_ready: Callable[[], None]) -> None:
        self._write_state()
        stop = asyncio.create_task(self._until_stop(told))
        start = asyncio.create_task(self._start())
        try:
            await asyncio.wait((start, stop), return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                start.result()
                on_ready()
                await stop
        finally:
            await _ended(start, stop)
            self._phase = Phase.STOPPING
            self._write_state()
            await self._supervisor.stop()
            self._embedded.clean_up()
            remove_state(self._home)
            if self._nobody_attached:
                self._nobody_attached.release()

    async def _start(self) -> None:
        if self._options.only_servers:
            self._servers = await self._embedded.start(self._settings)
        else:
            async with preparer(self._home / "logs") as preparing:
                servers = await self._embedded.start(self._settings)
                await preparing.prepare(servers, api_key=self._credentials.api_key)
            await self._start_work(servers)
            self._servers = servers
        self._phase = Phase.READY
        self._write_state()

    async def _start_work(self, servers: Servers) -> None:
        env = process_environment(self._home, servers, cpu_slots=self._options.cpu_slots)
        if self._settings.metrics.port:
            env[FOLDER_VARIABLE] = str(empty_folder(self._home / "metrics"))
        processes = pipeline_processes(env, dispatchers=self._options.dispatchers)
        if self._settings.metrics.port:
            processes.append(metrics_process(env))
        if self._options.with_flower:
            flower, self._flower = flower_process(
                env, home=self._home, port=self._embedded.pick_port(), password=self._credentials.flower_password
            )
            processes.append(flower)
        try:
            async with asyncio.TaskGroup() as starts:
                starts.create_task(self._supervisor.start(*processes))
                if self._options.with_api:
                    starts.create_task(on_free_ports(lambda: self._start_api(env)))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _start_api(self, env: Mapping[str, str]) -> None:
        wanted = self._settings.api
        ports = ApiPorts(
            callers=self._port(wanted.port),
            administrators=self._port(wanted.admin_port),
        )
        api, access = api_process(env, ports=ports, key=self._credentials.api_key)
        await self._supervisor.start(api)
        self._api = access

    def _port(self, wanted: int) -> int:
        """Return the port that the settings name, or another where somebody else has it."""
        return wanted if wanted and is_free(wanted) else self._embedded.pick_port()

    async def _until_stop(self, told: asyncio.Event) -> None:
        if not self._options.while_attached:
            await told.wait()
            return
        while not told.is_set():
            # Kept when got, until this process ends: whoever comes now waits, and starts a stack of its own.
            self._nobody_attached = FileLock.acquire(self._home / ATTACHED_LOCK)
            if self._nobody_attached:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), _ATTACHED_POLL.total_seconds())

    def _state(self) -> StackState:
        return StackState(
            phase=self._phase,
            while_attached=self._options.while_attached,
            supervisor=self._identity,
            settings=self._servers.as_settings() if self._servers else {},
            api=self._api,
            flower=self._flower,
            processes=self._supervisor.reports,
        )

    def _write_state(self) -> None:
        """Write down what has changed; a full disk must not end the watch over the processes."""
        try:
            write_state(self._home, self._state())
        except OSError as error:
            sys.stderr.write(f"the state of the stack could not be written: {error}\n")
        down = {name for name, report in self._supervisor.reports.items() if report.state is ProcessState.DOWN}
        for name in sorted(down - self._known_down):
            sys.stderr.write(f"{name} died too often and is left down; see {self._home}/logs/{name}.log\n")
        self._known_down = down


@contextlib.asynccontextmanager
async def _told_to_stop() -> AsyncIterator[asyncio.Event]:
    """Turn the signals that end a program into an event."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does with SIGHUP
            loop.add_signal_handler(number, told.set)
    try:
        yield told
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _ended(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they are over; their errors have been seen."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _end_orphans(home: Path) -> None:
    """Wait for what a killed supervisor has left, which has had its signal; kill what lingers."""
    left = read_state_of_any_age(home)
    for report in left.processes.values() if left else ():
        if report.identity and not wait_for_end(report.identity, _ORPHANS_WITHIN):
            end(report.identity, by=signal.SIGKILL)
            wait_for_end(report.identity, _ORPHANS_WITHIN)
