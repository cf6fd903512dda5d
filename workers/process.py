"""What a process of ours asks of the kernel: to die with its parent, to hold a device alone, to say what it takes."""

import contextlib
import ctypes
import fcntl
import gc
import os
import signal
from pathlib import Path

from pipeline.ports.engines import MemoryReading

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


class ResidentMemory:
    """MemoryGauge over what the kernel says of this process, for engines that compute in its own memory."""

    def reset(self) -> None:
        """Begin a new measurement of the peak, where the kernel allows it."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def read(self) -> MemoryReading:
        """Return what is held."""
        return MemoryReading(held_bytes=resident_bytes(), peak_bytes=_status_bytes("VmHWM"))

    def give_back(self) -> None:
        """Return what the allocator keeps of freed memory to the system."""
        give_back_memory()


def keep_for_good() -> None:
    """Take what is loaded by now, modules and models, out of what later collections walk through."""
    gc.collect()
    gc.freeze()


def give_back_memory() -> None:
    """Return what the allocator keeps of freed memory to the system, where it can."""
    gc.collect()
    # glibc alone has it; others return memory by themselves.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Return what this process holds in memory now."""
    return _status_bytes("VmRSS")


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0
