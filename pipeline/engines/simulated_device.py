"""A simulated accelerator: a ledger in a SQLite file of who holds how much of it, for tests and drills without one.

As a driver does, it notices the death of a process late, and until then counts what that held. It writes down what must
never happen, two processes that hold something at the same time, and the most that was ever held.
"""

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

_TABLES = """
CREATE TABLE IF NOT EXISTS held (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, started TEXT NOT NULL, bytes INTEGER NOT NULL, died REAL);
CREATE TABLE IF NOT EXISTS seen (peak_bytes INTEGER NOT NULL, shared INTEGER NOT NULL);
INSERT INTO seen SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM seen);
"""


class SimulatedMemoryError(RuntimeError):
    """The simulated device is full; in the words of torch, which is all that callers can tell it by."""


class Tensor:
    """Some of the device's memory; given back when nothing refers to it any more."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True)
class SimulatedDevice:
    """One device, as one process sees it; several processes may have the same file."""

    path: Path
    capacity_bytes: int
    teardown: timedelta = timedelta(0)
    """From a process's death until the driver has given back what it held."""
    _own_bytes: int = field(default=0, init=False)
    _own_peak_bytes: int = field(default=0, init=False)

    def allocate(self, size_bytes: int) -> Tensor:
        """Take so much of it. Raises: SimulatedMemoryError."""
        with self._ledger() as ledger:
            live = self._live_bytes(ledger)
            if live + size_bytes > self.capacity_bytes:
                raise SimulatedMemoryError(
                    f"CUDA out of memory. Tried to allocate {size_bytes} bytes, {self.capacity_bytes - live} are free"
                )
            row = ledger.execute(
                "INSERT INTO held (pid, started, bytes) VALUES (?, ?, ?)",
                (os.getpid(), _started(os.getpid()), size_bytes),
            )
            others = ledger.execute("SELECT count(*) FROM held WHERE pid <> ?", (os.getpid(),)).fetchone()[0]
            ledger.execute(
                "UPDATE seen SET peak_bytes = max(peak_bytes, ?), shared = shared + ?",
                (live + size_bytes, int(others > 0)),
            )
        self._own_bytes += size_bytes
        self._own_peak_bytes = max(self._own_peak_bytes, self._own_bytes)
        tensor = Tensor()
        # Not when the process exits: then it is the driver's turn.
        weakref.finalize(tensor, self._free, row.lastrowid or 0, size_bytes, os.getpid()).atexit = False
        return tensor

    @property
    def own_bytes(self) -> int:
        """Return what this process holds."""
        return self._own_bytes

    @property
    def own_peak_bytes(self) -> int:
        """Return the most that this process held since `reset_peak`."""
        return self._own_peak_bytes

    def reset_peak(self) -> None:
        """Begin a new measurement of the peak."""
        self._own_peak_bytes = self._own_bytes

    def used_bytes(self) -> int:
        """Return what all processes hold, the dead ones of whose death the driver has not heard yet included."""
        with self._ledger() as ledger:
            return self._live_bytes(ledger)

    def holders(self) -> tuple[int, ...]:
        """Return the processes that hold something, likewise."""
        with self._ledger() as ledger:
            self._live_bytes(ledger)
            return tuple(pid for (pid,) in ledger.execute("SELECT DISTINCT pid FROM held ORDER BY pid"))

    def seen(self) -> tuple[int, int]:
        """Return the most that was ever held, and how often something was taken while another process held some."""
        with self._ledger() as ledger:
            peak_bytes, shared = ledger.execute("SELECT peak_bytes, shared FROM seen").fetchone()
            return peak_bytes, shared

    def _free(self, row_id: int, size_bytes: int, pid: int) -> None:
        if os.getpid() != pid:
            return
        with self._ledger() as ledger:
            ledger.execute("DELETE FROM held WHERE id = ?", (row_id,))
        self._own_bytes -= size_bytes

    def _live_bytes(self, ledger: sqlite3.Connection) -> int:
        now = time.time()
        for process in ledger.execute("SELECT DISTINCT pid, started FROM held").fetchall():
            if _started(process[0]) != process[1]:
                ledger.execute(
                    "UPDATE held SET died = coalesce(died, ?) WHERE pid = ? AND started = ?", (now, *process)
                )
        ledger.execute("DELETE FROM held WHERE died <= ?", (now - self.teardown.total_seconds(),))
        live: int = ledger.execute("SELECT coalesce(sum(bytes), 0) FROM held").fetchone()[0]
        return live

    @contextmanager
    def _ledger(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as ledger:
            ledger.execute("PRAGMA journal_mode = WAL")
            ledger.execute("BEGIN IMMEDIATE")
            for statement in filter(str.strip, _TABLES.split(";")):
                ledger.execute(statement)
            yield ledger
            ledger.execute("COMMIT")


def _started(pid: int) -> str:
    """Return when a process began, so that its number means no other one; nothing if it is gone."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] == "Z" else after_name[19]
