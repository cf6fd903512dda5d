"""What this process holds of the host's memory, as the kernel says."""

import contextlib
import ctypes
import gc
from pathlib import Path

from pipeline.ports.engines import MemoryReading


class ResidentMemory:
    """MemoryGauge for engines that compute in their process's own memory."""

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
