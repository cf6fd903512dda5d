"""What a child process that reads strangers' files may take: memory, time, and no secrets."""

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

_KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LANG")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A child's limits, and whose child it is."""

    cpu_seconds: int
    max_memory_bytes: int
    """Address space."""
    parent: int

    @classmethod
    def until(cls, timeout: timedelta, *, max_memory_bytes: int) -> Self:
        """Return the bounds of a child of this process that may work for so long."""
        seconds = int(max(1.0, timeout.total_seconds())) + 1
        return cls(cpu_seconds=seconds, max_memory_bytes=max_memory_bytes, parent=os.getpid())


def bind(bounds: Bounds) -> None:
    """Bound this process, and end it with its parent."""
    resource.setrlimit(resource.RLIMIT_AS, (bounds.max_memory_bytes, bounds.max_memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (bounds.cpu_seconds, bounds.cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != bounds.parent:
        sys.exit("the parent is gone")


def child_environment(scratch: str) -> dict[str, str]:
    """Return a child's whole environment; its temporary files lie in a folder that outlives it and is not its own."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    return kept | {"TMPDIR": scratch, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
