"""What a process of ours asks of the kernel: to die with its parent, to hold a device alone."""

import ctypes
import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class ParentGone(Exception):
    """The parent died before its death could be asked to be announced."""


class DeviceLocked(Exception):
    """Another process of this host holds the device."""


def die_with_parent(parent_pid: int, sig: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process when the thread that started it ends. Raises: ParentGone."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, sig, 0, 0, 0)
    if os.getppid() != parent_pid:
        raise ParentGone(f"the parent {parent_pid} has gone")


def stand_back(niceness: int) -> None:
    """Let other processes of the host go first on its cores; call it in a session of its own.

    Where the kernel groups processes by session (sched(7), autogroup), the group's niceness counts, not the process's.
    """
    os.nice(niceness)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))


def lock_device(path: Path) -> int:
    """Take the host's lock on a device for as long as this process lives; return the descriptor, which must stay open.

    Raises: DeviceLocked, naming the holder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise DeviceLocked(f"{path.name} is held by process {holder or 'unknown'}") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
