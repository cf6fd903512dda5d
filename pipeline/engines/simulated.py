"""An engine that reads nothing: for tests, fault drills and benchmarks of everything around recognition.

What it does is told by the environment, as JSON in `MUNIMENT_SIMULATED`: `page_ms`, how long a page takes; `faults`, by
page number, what goes wrong on it, each time: `fail`, `kill`, `hang`, `memory`, `exhaust` (takes memory until there is
none, within a bound of its own), `poison` (the process can compute nothing more), or, only the first time on this host,
`kill_once` (marked by a file in `folder`); `sizes`, the same by the picture's size in pixels, `300x200`; `gate`, a
file: pages wait until it is there; `journal`, a file: gets device and process as a line for each page begun.
"""

import ctypes
import json
import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.domain.batches import ONE_PAGE, BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed
from pipeline.domain.recognition import EngineIdentity, Line
from pipeline.engines.failures import failure_of
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import ReadPage, Reads

VARIABLE = "MUNIMENT_SIMULATED"
_KNOWN_FAULTS = frozenset({"fail", "kill", "kill_once", "hang", "memory", "exhaust", "poison"})
_MORE_BYTES = 64 * 1024**2
"""What a process that is to run out of memory may take before it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What the engine is to do."""

    page_ms: int = 0
    faults: Mapping[int, str] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    gate: Path | None = None
    journal: Path | None = None

    def __post_init__(self) -> None:
        if unknown := {*self.faults.values(), *self.sizes.values()} - _KNOWN_FAULTS:
            raise ValueError(f"{VARIABLE}: unknown faults {sorted(unknown)}; there are {sorted(_KNOWN_FAULTS)}")

    @classmethod
    def from_environment(cls) -> "Simulation":
        """Return what the environment asks for. Raises: ValueError, TypeError."""
        told = json.loads(os.environ.get(VARIABLE, "{}"))
        told["faults"] = {int(number): fault for number, fault in told.get("faults", {}).items()}
        for name in ("folder", "gate", "journal"):
            told[name] = Path(told[name]) if told.get(name) else None
        return cls(**told)


class SimulatedEngine:
    """Recogniser that says of each page that it is that page."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._is_poisoned = False

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is."""
        return EngineIdentity(name="simulated", revision="1", settings_digest="")

    @property
    def reads(self) -> Reads:
        """Return how it takes pages."""
        return Reads.PAGE

    @property
    def batch(self) -> BatchBound:
        """Return that a batch is one page."""
        return ONE_PAGE

    def warm_up(self) -> None:
        """Do nothing: there is nothing to load."""

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield one line a page, `page N`, after its time and unless its fault strikes."""
        for page in pages:
            self._write_down()
            self._wait()
            self._strike(page)
            box = ((0.0, 0.0), (100.0, 0.0), (100.0, 20.0), (0.0, 20.0))
            yield ReadPage(number=page.number, lines=(Line(text=f"page {page.number}", polygon=box, confidence=1.0),))

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
        if self._is_poisoned:
            fault = "poison"
        match fault:
            case "fail":
                raise RecognitionFailed(ErrorCode.ENGINE_FAILED, f"page {number} fails, as it was told to")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill_once":
                if self._is_first_time(number):
                    os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                # In C and holding on to the interpreter, as a kernel that never returns does.
                ctypes.PyDLL(None).pause()
            case "memory":
                raise MemoryError
            case "poison":
                self._is_poisoned = True
                raise failure_of(RuntimeError("CUDA error: an illegal memory access was encountered"))
            case "exhaust":
                _exhaust_memory()

    def _is_first_time(self, number: int) -> bool:
        if self._simulation.folder is None:
            raise ValueError(f"{VARIABLE}: kill_once needs a folder")
        try:
            (self._simulation.folder / f"struck-{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _exhaust_memory() -> None:
    """Take memory until the system gives no more, for good: from now on this process lives within that bound."""
    has_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (has_bytes + _MORE_BYTES, most))
    taken = []
    while True:
        taken.append(bytearray(_MORE_BYTES // 8))
