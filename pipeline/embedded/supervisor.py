"""Keeps a list of processes running: ordered start with readiness, restart with backoff, logs, stop in reverse order.

Nothing outlives it: each child gets a signal when the supervisor dies, however it dies. That signal is tied to the
thread that forked (prctl(2), PR_SET_PDEATHSIG), so a supervisor belongs in the main thread of its process.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pipeline.embedded.errors import ProcessFailed
from pipeline.embedded.liveness import ProcessIdentity, identify
from pipeline.embedded.logs import RotatingLog
from pipeline.embedded.state import ProcessReport, ProcessState

Probe = Callable[[int], Awaitable[bool]]
"""Whether the process with this id is ready; asked again and again, so it returns quickly."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """As whom a process runs: a prefix to its command line, or another user."""

    prefix: tuple[str, ...] = ()
    user: int | None = None
    group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """How to run one process."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment, nothing is inherited."""
    folder: Path
    ready: Probe | None = None
    """None: ready as soon as it is started."""
    ready_within: timedelta = timedelta(seconds=60)
    stop_signal: signal.Signals = signal.SIGTERM
    stop_grace: timedelta = timedelta(seconds=10)
    """After this long it is killed."""
    death_signal: signal.Signals = signal.SIGKILL
    """What it gets when the supervisor dies."""
    account: Account = Account()
    layer: int = 0
    """Those of a higher layer need those below; they are stopped first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How a process that died is started again."""

    first_pause: timedelta = timedelta(seconds=0.5)
    """Doubled with each death inside the window."""
    longest_pause: timedelta = timedelta(seconds=30)
    max_deaths: int = 6
    window: timedelta = timedelta(minutes=1)
    """A process that dies `max_deaths` times inside it is left down."""

    def pause(self, deaths: int) -> timedelta | None:
        """Return how long to wait after so many deaths inside the window, or None to give up."""
        if deaths >= self.max_deaths:
            return None
        return min(self.longest_pause, self.first_pause * (1 << (deaths - 1)))


class Supervisor:
    """Starts, watches and stops processes; used inside one event loop."""

    def __init__(
        self,
        *,
        logs: Path,
        restarts: RestartPolicy = RestartPolicy(),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._logs = logs
        self._restarts = restarts
        self._on_change = on_change
        self._children: list[_Child] = []

    @property
    def reports(self) -> dict[str, ProcessReport]:
        """Return what each process does now, in the order of their start."""
        return {child.spec.name: child.report for child in self._children}

    async def start(self, *specs: ProcessSpec) -> None:
        """Start some processes together and wait until all are ready; from then on they are kept running.

        Raises: ProcessFailed, when one ends or is not ready in time; all of these are stopped then.
        """
        children = [_Child(spec, self._logs, self._restarts, self._on_change) for spec in specs]
        self._children += children
        try:
            async with asyncio.TaskGroup() as starts:
                for child in children:
                    starts.create_task(child.start())
        except BaseException as error:
            await _stop(children)
            self._children = [child for child in self._children if child not in children]
            if isinstance(error, ExceptionGroup):
                raise error.exceptions[0] from None
            raise

    async def stop(self) -> None:
        """Stop all processes, the highest layer first. Nothing is left running. Calling twice is safe."""
        for layer in sorted({child.spec.layer for child in self._children}, reverse=True):
            await _stop([child for child in self._children if child.spec.layer == layer])
        self._children.clear()


class _Child:
    def __init__(self, spec: ProcessSpec, logs: Path, restarts: RestartPolicy, on_change: Callable[[], None]) -> None:
        self.spec = spec
        self._log = RotatingLog(logs / f"{spec.name}.log")
        self._policy = restarts
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._pump: _Pump | None = None
        self._identity: ProcessIdentity | None = None
        self._state = ProcessState.STARTING
        self._deaths: deque[float] = deque()
        self._restarts = 0
        self._last_exit: int | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def report(self) -> ProcessReport:
        return ProcessReport(
            state=self._state, identity=self._identity, restarts=self._restarts, last_exit=self._last_exit
        )

    async def start(self) -> None:
        process = await self._spawn()
        await self._until_ready(process)
        self._keeper = asyncio.create_task(self._keep(process))

    async def stop(self) -> None:
        if self._keeper:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._process:
            await self._end(self._process)
        if self._pump:
            await self._pump.finish()
        self._log.close()

    async def _spawn(self) -> asyncio.subprocess.Process:
        # A pipe of our own rather than asyncio's, so that the end of a process is seen at once, even while a
        # grandchild still holds its output.
        reading, writing = os.pipe()
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *self.spec.account.prefix,
                *self.spec.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                env=dict(self.spec.env),
                cwd=self.spec.folder,
                start_new_session=True,
                user=self.spec.account.user,
                group=self.spec.account.group,
                extra_groups=None if self.spec.account.group is None else [],
                preexec_fn=die_with_parent(self.spec.death_signal),
            )
        finally:
            os.close(writing)
        await self._connect_log(reading)
        self._identity = identify(process.pid)
        self._move(ProcessState.STARTING)
        return process

    async def _connect_log(self, reading: int) -> None:
        if self._pump:
            await self._pump.finish()
        self._pump = pump = _Pump(self._log)
        await asyncio.get_running_loop().connect_read_pipe(lambda: pump, os.fdopen(reading, "rb", 0))

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        if self.spec.ready:
            deadline = time.monotonic() + self.spec.ready_within.total_seconds()
            while not await self.spec.ready(process.pid):
                if process.returncode is not None:
                    raise await self._failure(f"ended with status {process.returncode} before it was ready")
                if time.monotonic() > deadline:
                    raise await self._failure(f"was not ready within {self.spec.ready_within.total_seconds():.0f} s")
                await asyncio.sleep(0.02)
        self._move(ProcessState.RUNNING)

    async def _keep(self, process: asyncio.subprocess.Process) -> None:
        while True:
            self._last_exit = await process.wait()
            self._kill_group(process.pid)
            self._process = self._identity = None
            pause = self._policy.pause(self._count_death())
            self._note(f"ended with status {self._last_exit}; " + (f"next start in {pause}" if pause else "left down"))
            if pause is None:
                self._move(ProcessState.DOWN)
                return
            self._move(ProcessState.WAITING)
            await asyncio.sleep(pause.total_seconds())
            process = await self._spawn()
            self._restarts += 1
            try:
                await self._until_ready(process)
            except ProcessFailed as error:
                self._note(str(error).partition(";")[0])
                self._kill_group(process.pid)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(self.spec.stop_signal)
            try:
                await asyncio.wait_for(process.wait(), self.spec.stop_grace.total_seconds())
            except TimeoutError:
                self._note(f"did not stop within {self.spec.stop_grace}; killed")
                self._kill_group(process.pid)
                await process.wait()
        self._kill_group(process.pid)

    def _kill_group(self, pid: int) -> None:
        """Kill what is left in the process's own session: itself, or children that it did not wait for."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def _count_death(self) -> int:
        now = time.monotonic()
        self._deaths.append(now)
        while self._deaths[0] < now - self._policy.window.total_seconds():
            self._deaths.popleft()
        return len(self._deaths)

    def _move(self, state: ProcessState) -> None:
        self._state = state
        self._on_change()

    def _note(self, what: str) -> None:
        self._log.write(f"[supervisor] {time.strftime('%Y-%m-%d %H:%M:%S')} {self.spec.name} {what}\n".encode())

    async def _failure(self, what: str) -> ProcessFailed:
        if self._pump:
            await self._pump.drained()
        return ProcessFailed(self.spec.name, what, self._log.tail())


async def _stop(children: Sequence[_Child]) -> None:
    await asyncio.gather(*(child.stop() for child in children))


class _Pump(asyncio.Protocol):
    def __init__(self, log: RotatingLog) -> None:
        self._log = log
        self._transport: asyncio.BaseTransport | None = None
        self._ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._log.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is theirs
        self._ended.set()

    async def drained(self) -> None:
        """Wait until all output has arrived, or for a moment where something else still holds the pipe."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), 0.2)

    async def finish(self) -> None:
        await self.drained()
        if self._transport:
            self._transport.close()
        await self._ended.wait()


def die_with_parent(death_signal: signal.Signals) -> Callable[[], None]:
    """Return what a child runs between fork and exec to get this signal when the forking thread dies."""
    supervisor = os.getpid()

    def tie() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)

    return tie
