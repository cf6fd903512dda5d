"""What turns page images into lines of text."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from pipeline.domain.batches import BatchBound
from pipeline.domain.chunk_memory import EngineMemory
from pipeline.domain.languages import Language
from pipeline.domain.recognition import Block, EngineIdentity, Flag, Line
from pipeline.ports.documents import PageImage


class Reads(StrEnum):
    """How an engine takes pages."""

    PAGE = "page"
    BATCH = "batch"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """What an engine found on one page, in its own order, in pixels of the image it was given."""

    number: int
    lines: tuple[Line, ...]
    """Each polygon begins with the edge along the top of its letters, so that it says which way they run."""
    blocks: tuple[Block, ...] = ()
    """Instead of lines, from engines that know themselves what belongs together and in which order it is read."""
    flags: tuple[Flag, ...] = ()
    sure: float = 0.97
    """The confidence that it has in most lines of a good page: engines count differently."""
    angle_deg: float = 0.0
    """How far clockwise the page had to be turned to be read; polygons lie on the page as given all the same."""
    tokens: int | None = None
    """That were generated for it, also in vain; None from engines that generate none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """What a process holds of what its engine computes in, bytes."""

    held_bytes: int
    peak_bytes: int
    """The most since the last reset."""
    reserved_bytes: int | None = None
    """The most that its allocator kept of an accelerator, in use or not."""


class MemoryGauge(Protocol):
    """Measures the memory of an accelerator that this process computes on."""

    def reset(self) -> None:
        """Begin a new measurement of the peak."""

    def read(self) -> MemoryReading:
        """Return what is held."""

    def give_back(self) -> None:
        """Return what is kept of freed memory to the device."""


class Recogniser(Protocol):
    """Turns page images into lines of text. Lives in the process that owns the device."""

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is, exactly."""

    @property
    def reads(self) -> Reads:
        """Return how it takes pages."""

    @property
    def batch(self) -> BatchBound:
        """Return how much it takes at once."""

    @property
    def gauge(self) -> MemoryGauge | None:
        """Return what measures its accelerator; None where it has none, and its memory is that of the process."""

    def warm_up(self) -> None:
        """Load the weights and read a page, so that the first real one is not slower than the rest.

        Raises: Transient (`engine_unavailable`).
        """

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield each page's lines in the order given; pages given together are within its bound.

        Raises: RecognitionFailed, for the page it was about to yield; it then goes on with the next one. Where there is
            no memory for all together, each of them fails so (`out_of_memory`), or a MemoryError ends the iterator.
            No failure keeps pixels or tensors. Transient (`device_broken`), when nothing more can be computed in this
            process.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What a chunk asks of an engine that generates text."""

    visual_tokens: int | None = None
    """What the job gives for a page; None as many as the engine takes. Engines without such a budget take no notice."""
    page_tokens: int | None = None
    """The most that are generated for a page, where the device has not room for as many as the engine makes."""
    progressed: Callable[[int], None] = lambda _tokens: None
    """Hears now and then that it goes on, and how many tokens a sequence has."""


@runtime_checkable
class GeneratingRecogniser(Recogniser, Protocol):
    """A Recogniser that generates its text, which may take long, and for which there are budgets."""

    def generating(self, wanted: Generation) -> None:
        """Generate like this from now on."""


EngineOptions = Mapping[str, Any]
"""What the settings say of one engine, `devices.engine_options.NAME`; each engine checks its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlugin:
    """An engine as an installed package offers it, under the entry point group `muniment.engines`.

    Making and asking one imports nothing that is heavy or may be missing; only `create` does.
    """

    name: str
    reads: Reads
    runs_on: tuple[str, ...]
    """Kinds of devices: `cpu`, `cuda`."""
    needs: str
    """For people: extra, weights, server."""
    revision: str
    """Of its weights, as far as that is known before they are loaded."""
    missing: Callable[[EngineOptions], str | None]
    """Says why it can't run here and what to do about it; nothing if it can."""
    create: Callable[[EngineOptions], Recogniser]
    """Makes one that has loaded no weights yet. Raises: ValueError, if the options are not its own."""
    languages: Callable[[EngineOptions], frozenset[Language] | None] = lambda _options: None
    """Says what it can read here; nothing if that is not known."""
    is_told_languages: bool = False
    """Whether it takes an option `languages`, a list of their codes."""
    is_told_profile: bool = False
    """Whether it takes an option `profile`, the value of a `Profile`."""
    repeats_itself: bool = True
    """Whether it says the same of the same page, so that a page need not be read twice."""
    memory: Callable[[EngineOptions], EngineMemory | None] = lambda _options: None
    """Says what it takes of an accelerator; nothing if that can't be said before."""
