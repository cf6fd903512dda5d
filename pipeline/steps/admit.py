"""Admit: move due rows onto the broker, within each queue's window. The backlog waits in Postgres."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import structlog

from pipeline.domain.document import Lane
from pipeline.domain.errors import Transient
from pipeline.domain.fairness import Window
from pipeline.ports.devices import DeviceInfo
from pipeline.ports.dispatch import Admissions, ChainQueue, DueChunk, DueJob

log = structlog.get_logger()
Due = TypeVar("Due", DueJob, DueChunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How much may be on its way in each queue."""

    io: int
    per_slot: int
    """Chunks for each live device of a lane."""
    most_per_slot: int
    """The same, for chunks so short that a device would be done with them before the next look at the rows."""
    ahead: timedelta
    """Work for each device beyond `per_slot` that is enough, by what such work took lately."""
    short_share: float
    """Room beside the window that is kept for short jobs, as a share of the lane's devices, at least one chunk."""

    def of_lane(self, devices: int, pace: float) -> Window:
        """Return the window of a lane with so many devices, whose chunks take `pace` times what was estimated."""
        return Window(
            least=self.per_slot * devices,
            most=self.most_per_slot * devices,
            ahead_ms=round(self.ahead / timedelta(milliseconds=1) * devices / pace),
        )

    def of_express(self, devices: int) -> Window:
        """Return the room for short jobs in a lane with so many devices.

        What has it goes before all that waits in the queue. So it is counted until it is done, and is never as large as
        the lane: each device that has done a short chunk finds a long one next.
        """
        room = max(1, int(devices * self.short_share))
        return Window(least=room, most=room, ahead_ms=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """The step, over its ports. Any number of dispatchers may run it at once."""

    rows: Admissions
    queue: ChainQueue
    windows: Windows
    check_services: Callable[[], None]
    """Raises Transient while a service is away without which no work could be done."""

    def __call__(self) -> int:
        """Send what is due and fits; return how many messages went out.

        Raises: Transient, when a service is away; whatever was marked and not sent is due again. Nothing is sent while
        work could only fail for want of a service.
        """
        self.check_services()
        io = Window(least=self.windows.io, most=self.windows.io, ahead_ms=0)
        sent = self.send_jobs(self.rows.take_jobs(io))
        devices = self.rows.live_devices()
        for lane in Lane:
            serving = _serving(devices, lane)
            sent += self.send_chunks(self.rows.take_express(lane, self.windows.of_express(serving)))
            window = self.windows.of_lane(serving, self.rows.pace(lane))
            sent += self.send_chunks(self.rows.take_chunks(lane, window))
        return sent

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


def _serving(devices: Sequence[DeviceInfo], lane: Lane) -> int:
    # Without any device one message still goes out, so that a worker that comes up finds work at once.
    return max(1, sum(lane in device.lanes for device in devices))
