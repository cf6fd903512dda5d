"""Decides when a device is sick: when its runner breaks over several chunks in a row, it is the device and not they."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipeline.domain.document import ChunkId
from pipeline.domain.errors import ErrorCode

BREAKS_THE_RUNNER = frozenset(
    {ErrorCode.PROCESS_DIED, ErrorCode.STALLED, ErrorCode.OUT_OF_MEMORY, ErrorCode.DEVICE_BROKEN}
)
"""After these the runner is gone, and one that poisons its own process may have been poisoned by the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is known of a device; every method gives what is known afterwards."""

    sick_after: int
    """Different chunks in a row, without a page that was finished between them."""
    probe_every: timedelta
    suspects: frozenset[ChunkId] = frozenset()
    vain: int = 0
    """Runners in a row that did not get ready."""
    probe_at: datetime | None = None
    """When a sick device is tried next; None while it is well."""

    def __post_init__(self) -> None:
        if self.sick_after < 1:
            raise ValueError(f"a device can't be sick after {self.sick_after} chunks")

    @property
    def is_sick(self) -> bool:
        """Whether it is to take nothing until a probe has succeeded."""
        return self.probe_at is not None

    def failed(self, chunk_id: ChunkId, code: ErrorCode, now: datetime) -> "Health":
        """Take note of a chunk that failed. The same chunk again says nothing new: it may be the one at fault."""
        if code not in BREAKS_THE_RUNNER:
            return self
        suspects = self.suspects | {chunk_id}
        is_sick = len(suspects) >= self.sick_after
        return replace(self, suspects=suspects, probe_at=now + self.probe_every if is_sick else self.probe_at)

    def worked(self) -> "Health":
        """Take note of pages that were finished."""
        return replace(self, suspects=frozenset(), vain=0, probe_at=None)

    def probed(self) -> "Health":
        """Take note of a runner that got ready, having read a page of its own: a sick device is well again.

        Suspects of one that was not sick stay so: its runner got ready before each of them, too.
        """
        return self.worked() if self.is_sick else replace(self, vain=0)

    def probed_in_vain(self, now: datetime) -> "Health":
        """Take note of a runner that did not get ready; once may be chance."""
        vain = self.vain + 1
        is_sick = self.is_sick or vain >= self.sick_after
        return replace(self, vain=vain, probe_at=now + self.probe_every if is_sick else None)

    def set_aside(self, now: datetime) -> "Health":
        """Take note of a runner that does not go away although it was killed: nothing may follow it yet."""
        return replace(self, probe_at=now + self.probe_every)

    def is_due(self, now: datetime) -> bool:
        """Whether a runner may be started: always on a device that is well."""
        return self.probe_at is None or now >= self.probe_at
