"""One process of the stack: how it is described, started and waited for.

Nothing outlives the supervisor: each child gets a signal when the thread that forked it dies (prctl(2),
PR_SET_PDEATHSIG), so processes are started from the main thread.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

Probe = Callable[[int], Awaitable[bool]]
"""Whether the process with this id is ready; asked again and again, so it returns quickly."""

_PR_SET_PDEATHSIG = 1
_END_POLL_S = 0.05
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


def spawn(spec: ProcessSpec, output: int) -> "subprocess.Popen[bytes]":
    """Start the process in a session of its own, its output going to this descriptor. Raises: OSError."""
    with warnings.catch_warnings():
        # From 3.12 on a fork in a process with threads is warned of; this child only calls prctl and exec.
        warnings.simplefilter("ignore", DeprecationWarning)
        return subprocess.Popen(
            [*spec.account.prefix, *spec.argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(spec.env),
            cwd=spec.folder,
            start_new_session=True,
            user=spec.account.user,
            group=spec.account.group,
            extra_groups=None if spec.account.group is None else [],
            preexec_fn=_die_with_parent(spec.death_signal),  # noqa: PLW1509 - see above
        )


async def ended(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the end of a process and reap it; return its exit status, negative for a signal."""
    # asyncio's own processes would also wait for the end of their output, which a grandchild may hold.
    with contextlib.suppress(OSError):  # a kernel before 5.3
        descriptor = os.pidfd_open(process.pid)
        try:
            await _readable(descriptor)
        finally:
            os.close(descriptor)
    while (status := process.poll()) is None:
        await asyncio.sleep(_END_POLL_S)
    return status


def kill_group(pid: int) -> None:
    """Kill what is left in the session of a process: itself, or children that it did not wait for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()
    loop.add_reader(descriptor, seen.set)
    try:
        await seen.wait()
    finally:
        loop.remove_reader(descriptor)


def _die_with_parent(death_signal: signal.Signals) -> Callable[[], None]:
    supervisor = os.getpid()

    def between_fork_and_exec() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)

    return between_fork_and_exec
