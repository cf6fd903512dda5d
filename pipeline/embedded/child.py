"""A supervised process through all its lives: started, watched, started again, stopped; its output in a log."""

import asyncio
import contextlib
import os
import subprocess
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from pipeline.embedded.errors import ProcessFailed
from pipeline.embedded.liveness import ProcessIdentity, identify
from pipeline.embedded.logs import RotatingLog
from pipeline.embedded.process import ProcessSpec, ended, kill_group, spawn
from pipeline.embedded.state import ProcessReport, ProcessState

_READY_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How a process that died is started again."""

    first_pause: timedelta = timedelta(seconds=0.5)
    """Doubled with each death inside the window."""
    longest_pause: timedelta = timedelta(seconds=30)
    max_deaths: int = 6
    window: timedelta = timedelta(minutes=1)
    """A process that dies `max_deaths` times inside it is left down."""
    settled: timedelta = timedelta(seconds=10)
    """A process that ran this long before it died works: its earlier deaths are forgotten."""

    def pause(self, deaths: int) -> timedelta | None:
        """Return how long to wait after so many deaths inside the window, or None to give up."""
        if deaths >= self.max_deaths:
            return None
        return min(self.longest_pause, self.first_pause * (1 << (deaths - 1)))


class Child:
    """One process, kept running from `start` to `stop`."""

    def __init__(
        self,
        spec: ProcessSpec,
        *,
        logs: Path,
        policy: RestartPolicy,
        on_change: Callable[[], None],
        echo: BinaryIO | None = None,
    ) -> None:
        self.spec = spec
        self._log = RotatingLog(logs / f"{spec.name}.log", echo=echo)
        self._policy = policy
        self._on_change = on_change
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None
        self._pump: _Pump | None = None
        self._state = ProcessState.STARTING
        self._deaths: deque[float] = deque()
        self._ready_at: float | None = None
        self._restarts = 0
        self._last_exit: int | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def report(self) -> ProcessReport:
        """Return what the process does now."""
        return ProcessReport(
            state=self._state, identity=self._identity, restarts=self._restarts, last_exit=self._last_exit
        )

    async def start(self) -> None:
        """Start it and wait until it is ready; from then on it is kept running.

        Raises: ProcessFailed, when it can't be started, ends or is not ready in time.
        """
        await self._run()
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Stop it and what it left in its session; killed after the grace. Calling twice is safe."""
        if self._keeper:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._process:
            await self._end(self._process)
        if self._pump:
            await self._pump.finish()
        self._log.close()

    async def _run(self) -> None:
        self._ready_at = None
        self._move(ProcessState.STARTING)
        try:
            process = await self._spawn()
        except OSError as error:
            raise await self._failure(f"could not be started: {error}") from error
        await self._until_ready(process)
        self._ready_at = time.monotonic()
        self._move(ProcessState.RUNNING)

    async def _spawn(self) -> "subprocess.Popen[bytes]":
        reading, writing = os.pipe()
        try:
            self._process = process = spawn(self.spec, writing)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._identity = identify(process.pid)
        await self._connect_log(reading)
        self._on_change()
        return process

    async def _connect_log(self, reading: int) -> None:
        if self._pump:
            await self._pump.finish()
        self._pump = pump = _Pump(self._log)
        await asyncio.get_running_loop().connect_read_pipe(lambda: pump, os.fdopen(reading, "rb", 0))

    async def _until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        if self.spec.ready is None:
            return
        deadline = time.monotonic() + self.spec.ready_within.total_seconds()
        while not await self.spec.ready(process.pid):
            if (status := process.poll()) is not None:
                raise await self._failure(f"ended with status {status} before it was ready")
            if time.monotonic() > deadline:
                raise await self._failure(f"was not ready within {self.spec.ready_within.total_seconds():.0f} s")
            await asyncio.sleep(_READY_POLL_S)

    async def _keep(self) -> None:
        while True:
            if self._process:
                self._last_exit = await ended(self._process)
                kill_group(self._process.pid)
                self._process = self._identity = None
                self._note(f"ended with status {self._last_exit}")
            pause = self._policy.pause(self._count_death())
            if pause is None:
                self._note("died too often; left down")
                self._move(ProcessState.DOWN)
                return
            self._move(ProcessState.WAITING)
            await asyncio.sleep(pause.total_seconds())
            self._restarts += 1
            try:
                await self._run()
            except ProcessFailed as error:
                self._note(error.what)
                if self._process:
                    kill_group(self._process.pid)

    async def _end(self, process: "subprocess.Popen[bytes]") -> None:
        if process.poll() is None:
            process.send_signal(self.spec.stop_signal)
            try:
                await asyncio.wait_for(ended(process), self.spec.stop_grace.total_seconds())
            except TimeoutError:
                self._note(f"did not stop within {self.spec.stop_grace}; killed")
                kill_group(process.pid)
                await ended(process)
        kill_group(process.pid)
        self._process = None

    def _count_death(self) -> int:
        now = time.monotonic()
        if self._ready_at is not None and now - self._ready_at >= self._policy.settled.total_seconds():
            self._deaths.clear()
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


class _Pump(asyncio.Protocol):
    """Moves what a process prints into its log."""

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
        """Take what has arrived, and close."""
        await self.drained()
        if self._transport:
            self._transport.close()
        await self._ended.wait()
