"""Devices: who holds them, and what their runners say while they read."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from pipeline.domain.batches import BatchBound, Misfit
from pipeline.domain.chunk_memory import EngineMemory
from pipeline.domain.document import ChunkId, JobId, Lane
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.recognition import EngineIdentity
from pipeline.domain.states import DeviceState
from pipeline.ports.chunks import ClaimedChunk, KnownPage, Measured, PageEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesStarted:
    """The runner is busy with these pages from now on, and with no others."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLowered:
    """Memory ran out; from now on the runner takes no more than this at once, and it reads the pages again."""

    bound: BatchBound


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChanged:
    """Another engine reads the chunk, for the one that it wants had lately no memory for such pages, even one alone."""

    engine: str
    instead_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesFinished:
    """The runner has put a group of finished pages into the store."""

    pages: tuple[PageEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSeen:
    """The runner waits to hear whether a page that looks like this was read before."""

    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment has passed without news from a runner that is still within its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEnded:
    """The runner has come to the end of the chunk, or to a page border after it was asked to stop."""

    stopped: bool
    measured: Measured
    batch_pixels: int = 0
    """Of the largest batch that was read."""
    batch_pages: int = 0
    """That it had."""


class ReadingFailed(PipelineError):
    """The runner says that the chunk failed, and what it took."""

    def __init__(self, code: ErrorCode, message: str, measured: Measured) -> None:
        super().__init__(code, message)
        self.measured = measured
        self.misfit: Misfit | None = None
        """What there was no memory for, if that is why, and where it is known."""


ReadingEvent = PagesStarted | BatchLowered | EngineChanged | PageSeen | PagesFinished | Tick | ChunkEnded


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

        Raises: ReadingFailed, when the runner says that the chunk failed; PipelineError, when it died (`process_died`)
            or was killed because no page moved on (`stalled`); no runner is left then.
        """

    def answer(self, seen: PageSeen, known: KnownPage | None) -> None:
        """Tell the runner what it waits for."""

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
    free_bytes: int | None = None
    """Of these, what is not held by others, where that is known."""

    @property
    def planned_bytes(self) -> int | None:
        """Return what may be planned with."""
        return self.total_bytes if self.free_bytes is None else self.free_bytes

    @property
    def id(self) -> str:
        """Return the id that is unique among all hosts."""
        return f"{self.host}/{self.name}"


class DeviceHeld(Exception):
    """Another process holds the device; this one must not start."""

    def __init__(self, device_id: str, holder: str) -> None:
        super().__init__(f"device {device_id} is held by {holder}; stop that worker first, or name another device")
        self.holder = holder


class Standing(StrEnum):
    """What the rows say to whoever holds a device."""

    SERVE = "serve"
    DRAIN = "drain"
    """Somebody asked for it: finish the page in work, hand back its chunk, take nothing."""
    LOST = "lost"
    """Somebody else holds it."""


class Devices(Protocol):
    """Who holds which device."""

    def acquire(self, device: DeviceInfo, owner: str) -> Standing:
        """Take the device's lease; it may have been asked to drain before. Raises: DeviceHeld, which says by whom."""

    def renew(
        self,
        device_id: str,
        owner: str,
        state: DeviceState,
        *,
        problem: str | None = None,
        free_bytes: int | None = None,
    ) -> Standing:
        """Extend the lease, show the state, and say what is to be done.

        Args: problem says why it takes nothing, if that is so; free_bytes is what it has for its engine.
        """

    def describe(self, device_id: str, owner: str, engine: EngineIdentity, measured: Measured) -> None:
        """Show what is loaded and what it takes; the peak is the highest since that was loaded."""

    def publish(self, device_id: str, owner: str, needs: Mapping[str, EngineMemory]) -> None:
        """Show what engines take of the device, by their names, for those who plan for it and have no model."""

    def needs_of(self, engine: str) -> EngineMemory | None:
        """Return what an engine takes, as a device that lives says; None if none does."""

    def release(self, device_id: str, owner: str) -> None:
        """Give the device back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStatus:
    """A device as people see it."""

    device_id: str
    host: str
    name: str
    kind: str
    state: DeviceState
    is_live: bool
    """Whether its worker has been heard of within its lease."""
    drain_requested: bool
    holder: str | None
    engine: str | None
    revision: str | None
    problem: str | None
    """Why it takes nothing, where that is not somebody's wish."""
    total_bytes: int | None
    free_bytes: int | None
    """Of these, what is not held by others: what its engine may be planned with."""
    baseline_bytes: int | None
    peak_bytes: int | None
    updated_at: datetime
    chunk_id: ChunkId | None
    job_id: JobId | None
    """What it reads now, if it does."""


class DeviceBoard(Protocol):
    """Devices as people see and stop them."""

    def all(self) -> list[DeviceStatus]:
        """Return all devices, by host and name."""

    def set_drain(self, names: Sequence[str], *, drain: bool) -> list[str]:
        """Ask devices to drain, or to serve again; return the ids of those that there are.

        Args: names are ids (`host/cpu:0`) or names, which mean the devices of that name on every host.
        """
