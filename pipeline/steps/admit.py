"""Admit: move due rows onto the broker, within each queue's window. The backlog waits in Postgres."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from pipeline.domain.document import Lane
from pipeline.domain.errors import Transient
from pipeline.ports.devices import DeviceInfo
from pipeline.ports.dispatch import Admissions, ChainQueue, DueChunk, DueJob

log = structlog.get_logger()
Due = TypeVar("Due", DueJob, DueChunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How much may be on its way in each queue."""

    io: int
    per_slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """The step, over its ports. Any number of dispatchers may run it at once."""

    rows: Admissions
    queue: ChainQueue
    windows: Windows

    def __call__(self) -> int:
        """Send what is due and fits; return how many messages went out.

        Raises: Transient, when the broker or the database is away; whatever was marked and not sent is due again.
        """
        sent = self.send_jobs(self.rows.take_jobs(max(0, self.windows.io - self.rows.in_flight_jobs())))
        devices = self.rows.live_devices()
        for lane in Lane:
            room = self._window(devices, lane) - self.rows.in_flight_chunks(lane)
            if room > 0:
                sent += self.send_chunks(self.rows.take_chunks(lane, room))
        return sent

    def _window(self, devices: Sequence[DeviceInfo], lane: Lane) -> int:
        # Without any device one message still goes out, so that a worker that comes up finds work at once.
        return self.windows.per_slot * max(1, sum(lane in device.lanes for device in devices))

    def send_jobs(self, due: Sequence[DueJob]) -> int:
        """Send jobs that were marked as sent; return how many. Raises: Transient, as above."""
        return self._send(due, self.queue.send_job, lambda rest: self.rows.unsent(rest, []))

    def send_chunks(self, due: Sequence[DueChunk]) -> int:
        """Send chunks that were marked as admitted; return how many. Raises: Transient, as above."""
        return self._send(due, self.queue.send_chunk, lambda rest: self.rows.unsent([], rest))

    def _send(self, due: Sequence[Due], send: Callable[[Due], None], unsent: Callable[[Sequence[Due]], None]) -> int:
        for position, item in enumerate(due):
            try:
                send(item)
            except Transient:
                unsent(due[position:])
                raise
        return len(due)
