"""The embedded stack as its users see it: start it, share it, stop it.

`start_detached` leaves a stack running until `stop`. `start_owned` gives one that ends with its last user, and shares
whatever stack already runs in the home. `serve` is the stack itself, in the foreground.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from pipeline.embedded import serving
from pipeline.embedded.errors import HomeInUse, ProcessFailed, ServerMissing, StackError
from pipeline.embedded.files import private_folder
from pipeline.embedded.liveness import end, wait_for_end
from pipeline.embedded.locks import FileLock, held
from pipeline.embedded.serving import ATTACHED_LOCK, StackOptions
from pipeline.embedded.state import StackState, read_state
from pipeline.settings import Settings

__all__ = [
    "HomeInUse",
    "ProcessFailed",
    "ServerMissing",
    "StackError",
    "StackHandle",
    "StackState",
    "read_state",
    "serve",
    "share",
    "start_detached",
    "start_owned",
    "stop",
]

_START_LOCK = "start.lock"
_START_WITHIN = timedelta(seconds=120)
_STOP_WITHIN = timedelta(seconds=60)
_MAX_LOG_BYTES = 1024**2

# Supervisors started by this process: kept, so that they are reaped when they end.
_children: list[subprocess.Popen[bytes]] = []


class StackHandle:
    """The use of a running stack by this process; also given back by the process's end, however that comes."""

    def __init__(self, home: Path, state: StackState, attached: FileLock) -> None:
        self.home = home
        self.state = state
        self._attached = attached

    def stop(self, within: timedelta = _STOP_WITHIN) -> None:
        """End the use; ends the stack, and waits for that, if it was started for its users and this is the last.

        Calling twice is safe. Raises: StackError, if it does not end in time.
        """
        self._attached.release()
        if not self.state.while_attached:
            return
        lock = self.home / ATTACHED_LOCK
        if alone := FileLock.acquire(lock):
            try:
                _end_supervisor(self.home, self.state, within)
            finally:
                alone.release()
        elif others := FileLock.acquire(lock, shared=True):
            others.release()
        else:
            # The supervisor itself has noticed that nobody is left.
            _wait_until_gone(self.home, self.state, within)


async def serve(
    home: Path,
    settings: Settings,
    *,
    with_flower: bool = False,
    cpu_slots: int | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Run a stack in this process until it is told to stop (SIGTERM, SIGINT, SIGHUP); nothing is left running then.

    Servers that the settings name are used, the others are started. To be called in the main thread.

    Raises: HomeInUse, when another supervisor owns the home; StackError.
    """
    options = StackOptions(with_flower=with_flower, with_api=True, cpu_slots=cpu_slots)
    await serving.serve(home, settings, options=options, on_ready=on_ready)


def start_owned(home: Path, *, with_flower: bool = False, cpu_slots: int | None = None) -> StackHandle:
    """Share the stack that runs in this home, or start one that ends with its last user; return when it is ready.

    The options count only for a stack that is started. Raises: StackError.
    """
    return share(home, StackOptions(with_flower=with_flower, cpu_slots=cpu_slots))


def share(home: Path, options: StackOptions) -> StackHandle:
    """Do what `start_owned` does, with all options. Raises: StackError."""
    private_folder(home)
    attached = FileLock.acquire(home / ATTACHED_LOCK, shared=True, within=_STOP_WITHIN)
    if attached is None:
        raise StackError(f"the stack in {home} has been stopping for {_STOP_WITHIN}; see {home}/logs/supervisor.log")
    try:
        return StackHandle(home, _start(home, options, "--while-attached"), attached)
    except BaseException:
        attached.release()
        raise


def start_detached(home: Path, *, with_flower: bool = False, cpu_slots: int | None = None) -> StackState:
    """Start a stack that runs until `stop`; return when it is ready. Raises: HomeInUse, StackError."""
    private_folder(home)
    if read_state(home):
        raise HomeInUse(f"a stack runs in {home} already")
    return _start(home, StackOptions(with_flower=with_flower, with_api=True, cpu_slots=cpu_slots))


def stop(home: Path, within: timedelta = _STOP_WITHIN) -> bool:
    """End the stack of this home, whoever uses it, and wait until nothing of it runs; whether there was one.

    Raises: StackError, if it does not end in time.
    """
    state = read_state(home)
    if state is None:
        return False
    _end_supervisor(home, state, within)
    return True


def _start(home: Path, options: StackOptions, *arguments: str) -> StackState:
    with held(home / _START_LOCK, within=_START_WITHIN):
        state = read_state(home)
        if state and (settled := _wait_until_ready(home, state)):
            return settled
        return _spawn(home, options, *arguments)


def _wait_until_ready(home: Path, state: StackState | None) -> StackState | None:
    """Return the state once ready; None once the stack is gone."""
    deadline = time.monotonic() + _START_WITHIN.total_seconds()
    while state and not state.is_ready:
        if time.monotonic() > deadline:
            raise StackError(f"the stack in {home} has been {state.phase} for {_START_WITHIN}; stop it: muniment down")
        time.sleep(0.02)
        state = read_state(home)
    return state


def _spawn(home: Path, options: StackOptions, *arguments: str) -> StackState:
    log = private_folder(home / "logs") / "supervisor.log"
    if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
        log.unlink()
    with log.open("ab") as output:
        position = output.tell()
        supervisor = subprocess.Popen(
            [sys.executable, "-P", "-m", "pipeline.embedded", f"--home={home.resolve()}", *_flags(options), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _children.append(supervisor)
    try:
        return _until_ready(home, supervisor, log, position)
    except BaseException:
        supervisor.terminate()
        supervisor.wait(_STOP_WITHIN.total_seconds())
        raise


def _until_ready(home: Path, supervisor: "subprocess.Popen[bytes]", log: Path, position: int) -> StackState:
    deadline = time.monotonic() + _START_WITHIN.total_seconds()
    while time.monotonic() < deadline:
        state = read_state(home)
        if state and state.is_ready and state.supervisor.pid == supervisor.pid:
            return state
        if supervisor.poll() is not None:
            printed = log.read_bytes()[position:].decode(errors="replace").strip()
            raise StackError(printed or f"the supervisor ended with status {supervisor.returncode}; see {home}/logs")
        time.sleep(0.02)
    raise StackError(f"the stack was not ready within {_START_WITHIN}; see {home}/logs")


def _flags(options: StackOptions) -> list[str]:
    servers = options.servers
    return [
        *(["--with-flower"] if options.with_flower else []),
        *(["--with-api"] if options.with_api else []),
        *([] if options.cpu_slots is None else [f"--cpu-slots={options.cpu_slots}"]),
        f"--dispatchers={options.dispatchers}",
        *(["--only-servers"] if options.only_servers else []),
        *([] if servers.fsync else ["--no-fsync"]),
        f"--max-connections={servers.max_connections}",
        f"--broker-databases={servers.broker_databases}",
    ]


def _end_supervisor(home: Path, state: StackState, within: timedelta) -> None:
    end(state.supervisor, by=signal.SIGTERM)
    _wait_until_gone(home, state, within)


def _wait_until_gone(home: Path, state: StackState, within: timedelta) -> None:
    if not wait_for_end(state.supervisor, within):
        raise StackError(f"the stack in {home} did not stop within {within}; see {home}/logs/supervisor.log")
    for child in _children:
        child.poll()
