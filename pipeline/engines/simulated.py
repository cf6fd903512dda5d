"""An engine that reads nothing: for tests, fault drills and benchmarks of everything around recognition.

What it does is told by the environment, as JSON in `MUNIMENT_SIMULATED`, see `Simulation`. What may go wrong, each time
unless it says otherwise:

- `fail`: the page can't be read;
- `raise`, `raise_chained`, `raise_from_none`: an error that no engine should let out, with memory in its frames;
- `kill`, `kill_once` (the first time on this host, marked by a file in `folder`): the process dies;
- `hang`: it never comes back;
- `memory`: there is too little, of the accelerator if it has a simulated one, else of the host;
- `exhaust`: it takes the host's memory until there is none, within a bound of its own;
- `leak`: it keeps a page's memory of the accelerator for good;
- `poison`: it can compute nothing more, as after CUDA's sticky errors.
"""

import ctypes
import json
import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

from pipeline.domain.batches import BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed
from pipeline.domain.pixel_memory import BatchModel, PixelModel
from pipeline.domain.recognition import EngineIdentity, Line
from pipeline.engines.failures import failure_of
from pipeline.engines.simulated_device import SimulatedDevice, SimulatedMemoryError, Tensor
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import MemoryReading, ReadPage, Reads

VARIABLE = "MUNIMENT_SIMULATED"
_KNOWN_FAULTS = frozenset(
    {"fail", "raise", "raise_chained", "raise_from_none", "kill", "kill_once", "hang", "memory", "exhaust", "leak"}
    | {"poison"}
)
_MORE_BYTES = 64 * 1024**2
"""What a process that is to run out of memory may take before it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """The memory of a simulated accelerator, and what the engine takes of it."""

    capacity_bytes: int
    model_bytes: int
    bytes_per_pixel: float
    """Of all pages that are read together, while they are."""
    predicted: float = 1.0
    """The share of that which the engine says before it is loaded."""
    teardown_ms: int = 0
    """From the death of a process until the driver has given back what it held."""

    @property
    def said_bytes_per_pixel(self) -> float:
        """Return what the engine says that it takes."""
        return self.bytes_per_pixel * self.predicted


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What the engine is to do."""

    page_ms: int = 0
    """How long a page takes."""
    warm_up_ms: int = 0
    """How long it takes to get ready."""
    batch_pages: int = 1
    """How many it reads together."""
    tokens: int | None = None
    """That it says to have generated for a page."""
    faults: Mapping[int, str] = field(default_factory=dict)
    """By page number."""
    sizes: Mapping[str, str] = field(default_factory=dict)
    """The same by the picture's size in pixels, `300x200`."""
    folder: Path | None = None
    """For marks and ledgers."""
    gate: Path | None = None
    """A file: pages wait until it is there."""
    journal: Path | None = None
    """A file: gets device and process as a line for each page begun."""
    accelerator: Accelerator | None = None
    """What devices have that are no CPU slots; its ledger is a file in `folder`, by the device's name."""

    def __post_init__(self) -> None:
        if unknown := {*self.faults.values(), *self.sizes.values()} - _KNOWN_FAULTS:
            raise ValueError(f"{VARIABLE}: unknown faults {sorted(unknown)}; there are {sorted(_KNOWN_FAULTS)}")
        if self.folder is None and (self.accelerator or "kill_once" in self.faults.values()):
            raise ValueError(f"{VARIABLE}: marks and ledgers need a folder")

    @classmethod
    def from_environment(cls) -> "Simulation":
        """Return what the environment asks for. Raises: ValueError, TypeError."""
        told = json.loads(os.environ.get(VARIABLE, "{}"))
        told["faults"] = {int(number): fault for number, fault in told.get("faults", {}).items()}
        for name in ("folder", "gate", "journal"):
            told[name] = Path(told[name]) if told.get(name) else None
        if told.get("accelerator"):
            told["accelerator"] = Accelerator(**told["accelerator"])
        return cls(**told)

    def memory(self) -> BatchModel | None:
        """Return what the engine takes of an accelerator, as it says before it is loaded."""
        if self.accelerator is None:
            return None
        model = PixelModel(
            weights_bytes=self.accelerator.model_bytes, bytes_per_pixel=self.accelerator.said_bytes_per_pixel
        )
        return BatchModel(model=model, pages=self.batch_pages)

    def device(self, name: str) -> SimulatedDevice | None:
        """Return the accelerator of that name; None if it has no memory to simulate."""
        if self.accelerator is None or self.folder is None or name.startswith("cpu"):
            return None
        return SimulatedDevice(
            path=self.folder / f"{name.replace(':', '-')}.ledger",
            capacity_bytes=self.accelerator.capacity_bytes,
            teardown=timedelta(milliseconds=self.accelerator.teardown_ms),
        )


class SimulatedMemory:
    """MemoryGauge over a simulated device."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device

    def reset(self) -> None:
        """Begin a new measurement of the peak."""
        self._device.reset_peak()

    def read(self) -> MemoryReading:
        """Return what is held."""
        peak = self._device.own_peak_bytes
        return MemoryReading(held_bytes=self._device.own_bytes, peak_bytes=peak, reserved_bytes=peak)

    def give_back(self) -> None:
        """Do nothing: it keeps nothing."""


class SimulatedEngine:
    """Recogniser that says of each page that it is that page."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._device = simulation.device(os.environ.get("MUNIMENT_DEVICE", "cuda:0"))
        self._kept: list[Tensor] = []
        self._is_poisoned = False

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is."""
        return EngineIdentity(name="simulated", revision="1", settings_digest="")

    @property
    def reads(self) -> Reads:
        """Return how it takes pages."""
        return Reads.PAGE if self._simulation.batch_pages == 1 else Reads.BATCH

    @property
    def batch(self) -> BatchBound:
        """Return what it was told."""
        return BatchBound(pages=self._simulation.batch_pages, pixels=10**9)

    @property
    def gauge(self) -> SimulatedMemory | None:
        """Return what measures its accelerator."""
        return SimulatedMemory(self._device) if self._device else None

    def warm_up(self) -> None:
        """Take what its model would; calling twice is safe."""
        time.sleep(self._simulation.warm_up_ms / 1000)
        if self._device and self._simulation.accelerator and not self._kept:
            self._kept.append(self._device.allocate(self._simulation.accelerator.model_bytes))

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield one line a page, `page N`, after its time and unless its fault strikes."""
        together = list(pages)
        try:
            activations = self._take(together)
        except SimulatedMemoryError as error:
            failure = failure_of(error)
        else:
            return map(partial(self._read, activations), together)
        return map(partial(_fail, failure), together)

    def _read(self, _activations: Tensor | None, page: PageImage) -> ReadPage:
        self._write_down()
        self._wait()
        self._strike(page)
        box = ((0.0, 0.0), (100.0, 0.0), (100.0, 20.0), (0.0, 20.0))
        line = Line(text=f"page {page.number}", polygon=box, confidence=1.0)
        return ReadPage(number=page.number, lines=(line,), tokens=self._simulation.tokens)

    def _take(self, pages: Iterable[PageImage]) -> Tensor | None:
        """Take what reading pages together takes. Raises: SimulatedMemoryError."""
        if self._device is None or self._simulation.accelerator is None:
            return None
        pixels = sum(page.width_px * page.height_px for page in pages)
        return self._device.allocate(round(pixels * self._simulation.accelerator.bytes_per_pixel))

    def _write_down(self) -> None:
        if self._simulation.journal is None:
            return
        with self._simulation.journal.open("ab", buffering=0) as journal:
            journal.write(f"{os.environ.get('MUNIMENT_DEVICE', '-')} {os.getpid()}\n".encode())

    def _wait(self) -> None:
        time.sleep(self._simulation.page_ms / 1000)
        gate = self._simulation.gate
        while gate is not None and not gate.exists():
            time.sleep(0.01)

    def _strike(self, page: PageImage) -> None:
        number, size = page.number, f"{page.width_px}x{page.height_px}"
        fault = self._simulation.faults.get(number) or self._simulation.sizes.get(size)
        match "poison" if self._is_poisoned else fault:
            case "fail":
                raise RecognitionFailed(ErrorCode.ENGINE_FAILED, f"page {number} fails, as it was told to")
            case "raise" | "raise_chained" | "raise_from_none" as how:
                self._break(page, how)
            case "kill" | "kill_once" as how:
                if how == "kill" or self._is_first_time(number):
                    os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                # In C and holding on to the interpreter, as a kernel that never returns does.
                ctypes.PyDLL(None).pause()
            case "memory":
                self._run_out_of_memory()
            case "exhaust":
                _exhaust_memory()
            case "leak":
                self._kept += filter(None, [self._take([page])])
            case "poison":
                self._is_poisoned = True
                raise failure_of(RuntimeError("CUDA error: an illegal memory access was encountered"))

    def _break(self, page: PageImage, how: str) -> None:
        """Raise an error whose traceback keeps this frame, and with it what the frame holds of the device."""
        _held = self._take([page])
        try:
            raise RuntimeError(f"page {page.number} broke, as it was told to")  # noqa: TRY301 - the point of it
        except RuntimeError as error:
            if how == "raise_chained":
                raise ValueError("wrapped") from error
            if how == "raise_from_none":
                raise ValueError("wrapped") from None
            raise

    def _run_out_of_memory(self) -> None:
        if self._device is None:
            raise MemoryError
        try:
            self._device.allocate(self._device.capacity_bytes + 1)
        except SimulatedMemoryError as error:
            failure = failure_of(error)
        raise failure

    def _is_first_time(self, number: int) -> bool:
        assert self._simulation.folder is not None  # noqa: S101 - checked at the start
        try:
            (self._simulation.folder / f"struck-{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _fail(failure: RecognitionFailed, _page: PageImage) -> ReadPage:
    raise RecognitionFailed(failure.code, failure.message)


def _exhaust_memory() -> None:
    """Take memory until the system gives no more, for good: from now on this process lives within that bound."""
    has_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (has_bytes + _MORE_BYTES, most))
    taken = []
    while True:
        taken.append(bytearray(_MORE_BYTES // 8))
