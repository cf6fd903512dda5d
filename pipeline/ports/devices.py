"""Devices: who holds them, and what their runners say while they read."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from pipeline.domain.document import Lane
from pipeline.domain.recognition import EngineIdentity
from pipeline.domain.states import DeviceState
from pipeline.ports.chunks import ClaimedChunk, Measured, PageEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStarted:
    """The runner has begun a page."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesFinished:
    """The runner has put a group of finished pages into the store."""

    pages: tuple[PageEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment has passed without news from a runner that is still within its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEnded:
    """The runner has come to the end of the chunk, or to a page border after it was asked to stop."""

    stopped: bool
    measured: Measured


ReadingEvent = PageStarted | PagesFinished | Tick | ChunkEnded


class ReadingDevice(Protocol):
    """A device with a runner that reads one chunk at a time."""

    @property
    def device_id(self) -> str:
        """Return the id of the device's row."""

    def make_ready(self) -> None:
        """Wait for a warm runner, starting one if there is none. Raises: Transient (`engine_unavailable`)."""

    def read(self, chunk: ClaimedChunk) -> Generator[ReadingEvent, None, None]:
        """Yield what happens to the chunk, at least once a second; the last event is ChunkEnded.

        Closing it before that stops the runner at a page border, or kills it if it does not stop in time.

        Raises: PipelineError, when the runner says that the chunk failed, or when it died (`process_died`) or was
            killed because no page moved on (`stalled`); no runner is left then.
        """

    def stop(self) -> None:
        """Ask the runner to stop at the next page border; it is killed if it does not within a grace time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A device that a worker serves."""

    host: str
    name: str
    """`cpu:0`, `cuda:0`."""
    kind: str
    lanes: tuple[Lane, ...]
    total_bytes: int | None = None

    @property
    def id(self) -> str:
        """Return the id that is unique among all hosts."""
        return f"{self.host}/{self.name}"


class DeviceHeld(Exception):
    """Another process holds the device; this one must not start."""

    def __init__(self, device_id: str, holder: str) -> None:
        super().__init__(f"device {device_id} is held by {holder}; stop that worker first, or name another device")
        self.holder = holder


class Devices(Protocol):
    """Who holds which device."""

    def acquire(self, device: DeviceInfo, owner: str) -> None:
        """Take the device's lease. Raises: DeviceHeld, which says by whom."""

    def renew(self, device_id: str, owner: str, state: DeviceState) -> bool:
        """Extend the lease and show the state; say whether it still is ours."""

    def describe(self, device_id: str, owner: str, engine: EngineIdentity, measured: Measured) -> None:
        """Show what is loaded and what it takes."""

    def release(self, device_id: str, owner: str) -> None:
        """Give the device back."""
