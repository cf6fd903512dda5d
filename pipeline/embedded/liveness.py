"""Whether a process that was written down earlier is still the same one, and how to see the end of it."""

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process id with its start time, so that a recycled id is not mistaken for the process that had it before."""

    pid: int
    started: int
    """Clock ticks after boot: field 22 of `/proc/PID/stat`, proc(5)."""


def identify(pid: int) -> ProcessIdentity | None:
    """Return who has this process id now; None where there is nobody, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    # The name, in brackets, may itself hold spaces and brackets.
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    return ProcessIdentity(pid=pid, started=int(fields[19]))


def is_alive(process: ProcessIdentity) -> bool:
    """Whether this very process still runs."""
    return identify(process.pid) == process


def wait_for_end(process: ProcessIdentity, timeout: timedelta) -> bool:
    """Wait until the process is gone; whether it is."""
    deadline = time.monotonic() + timeout.total_seconds()
    with contextlib.suppress(OSError):
        watched = os.pidfd_open(process.pid)
        try:
            if is_alive(process):
                select.select([watched], [], [], timeout.total_seconds())
        finally:
            os.close(watched)
    while is_alive(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def end(process: ProcessIdentity, *, by: signal.Signals) -> None:
    """Send a signal to this process, and to nobody who got its id since."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, by)
