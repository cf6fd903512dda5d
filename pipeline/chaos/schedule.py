"""What a drill does, drawn from its seed: documents of known pages, and faults in their order. Nothing here acts.

Faults are paced by finished pages, so that the same seed hits the same moments of the work on any machine.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.domain.document import Lane


class PageKind(StrEnum):
    """What a page is made of, and so how it must end."""

    SCAN = "scan"
    TEXT = "text"
    """It has a text layer."""
    BLANK = "blank"
    KILLS = "kills"
    """The engine dies of it, each time."""
    FAILS = "fails"
    """The engine gives up on it, each time."""

    @property
    def is_poison(self) -> bool:
        """Whether it must end as failed."""
        return self in (PageKind.KILLS, PageKind.FAILS)


class Recovery(StrEnum):
    """What shows that a fault is over."""

    CLAIM = "claim"
    """The same slot claims a chunk, or somebody claims the chunk that was hit, whichever is first."""
    MOVE = "move"
    """A process of the same kind moves a row."""
    PAGE = "page"
    """The next page is in the ledger."""
    NONE = "none"
    """Nothing was taken away."""


class FaultKind(StrEnum):
    """What can be done to a running stack."""

    KILL_RUNNER = "kill_runner"
    KILL_CHILD = "kill_child"
    KILL_WORKER = "kill_worker"
    KILL_LAUNCHER = "kill_launcher"
    KILL_IO = "kill_io"
    KILL_DISPATCHER = "kill_dispatcher"
    STOP_RUNNER = "stop_runner"
    STOP_WORKER = "stop_worker"
    STOP_DISPATCHER = "stop_dispatcher"
    STOP_BROKER = "stop_broker"
    FLUSH_BROKER = "flush_broker"
    CUT_BROKER = "cut_broker"
    CRASH_BROKER = "crash_broker"
    EMPTY_BROKER = "empty_broker"
    CUT_DATABASE = "cut_database"
    RESTART_DATABASE = "restart_database"
    CRASH_DATABASE = "crash_database"
    RESTART_STORE = "restart_store"
    CRASH_STORE = "crash_store"
    DUPLICATE_MESSAGES = "duplicate_messages"
    LATE_MESSAGES = "late_messages"
    DRAIN_WORKER = "drain_worker"

    @property
    def recovers_by(self) -> Recovery:
        """Return what shows that it is over."""
        return _RECOVERY.get(self, Recovery.PAGE)

    @property
    def holds(self) -> bool:
        """Whether it stops a process (SIGSTOP) that goes on later (SIGCONT)."""
        return self.name.startswith("STOP_")


_RECOVERY = {
    FaultKind.KILL_RUNNER: Recovery.CLAIM,
    FaultKind.KILL_CHILD: Recovery.CLAIM,
    FaultKind.KILL_WORKER: Recovery.CLAIM,
    FaultKind.STOP_RUNNER: Recovery.CLAIM,
    FaultKind.STOP_WORKER: Recovery.CLAIM,
    FaultKind.DRAIN_WORKER: Recovery.CLAIM,
    FaultKind.KILL_IO: Recovery.MOVE,
    FaultKind.KILL_DISPATCHER: Recovery.MOVE,
    FaultKind.STOP_DISPATCHER: Recovery.MOVE,
    FaultKind.DUPLICATE_MESSAGES: Recovery.NONE,
    FaultKind.LATE_MESSAGES: Recovery.NONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document to be handed in."""

    name: str
    pages: tuple[PageKind, ...]
    """In their order; none for a file that is no document and must be rejected."""
    lane: Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of the schedule."""

    kind: FaultKind
    victim: int
    """Which of those that it may hit: a number to be taken modulo how many there are."""
    after_pages: int
    """It strikes once so many pages of the whole drill are in the ledger."""
    hold_leases: float
    """How long a stopped process is kept so, in leases of a chunk; some outlive their lease, some are given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All of a drill."""

    documents: tuple[Document, ...]
    faults: tuple[Fault, ...]

    @property
    def page_count(self) -> int:
        """Count the pages of all documents."""
        return sum(len(document.pages) for document in self.documents)


PAGES_PER_FAULT = 4
"""Documents are made long enough for that; between two faults at least one page is finished."""
_LONGEST = 60
_HOLDS = (0.5, 2.0, 4.0)
_VICTIMS = 1 << 16


def draw(seed: int, *, documents: int, faults: int, kinds: Sequence[FaultKind] = tuple(FaultKind)) -> Schedule:
    """Return the schedule of a seed: always the same one for the same numbers and kinds.

    Raises: ValueError, if there is no document, no kind, or a negative number of faults.
    """
    if documents < 1 or faults < 0 or not kinds:
        raise ValueError(
            f"a drill needs a document and a kind, and no fewer than 0 faults: {documents}, {kinds}, {faults}"
        )
    chance = random.Random(seed)  # noqa: S311 - to be reproduced, not secret
    drawn = tuple(_documents(chance, documents, at_least=PAGES_PER_FAULT * faults))
    pages = sum(len(document.pages) for document in drawn)
    return Schedule(documents=drawn, faults=tuple(_faults(chance, faults, kinds, pages)))


def _documents(chance: random.Random, count: int, *, at_least: int) -> Iterator[Document]:
    lengths = [_length(chance, number) for number in range(count)]
    while (total := sum(lengths)) < at_least:
        longest = [number for number, length in enumerate(lengths) if length > 1]
        lengths[chance.choice(longest)] += min(_LONGEST, at_least - total)
    for number, length in enumerate(lengths):
        lane = chance.choices((Lane.CPU, Lane.GPU), (4, 1))[0]
        yield Document(name=f"document-{number:04}.pdf", pages=tuple(_pages(chance, length)), lane=lane)


def _length(chance: random.Random, number: int) -> int:
    """Return a number of pages; the first document is long, so that there is always one to stretch."""
    ranges = ((0, 0), (1, 1), (2, 8), (9, _LONGEST))
    low, high = ranges[-1] if number == 0 else chance.choices(ranges, (1, 6, 8, 5))[0]
    return chance.randint(low, high)


def _pages(chance: random.Random, length: int) -> list[PageKind]:
    pages = chance.choices((PageKind.SCAN, PageKind.TEXT, PageKind.BLANK), (16, 3, 1), k=length)
    # Of a document of one page nothing would be left.
    for poison in (PageKind.KILLS, PageKind.FAILS) if length > 2 else ():
        if chance.random() < 0.15:
            pages[chance.randrange(length)] = poison
    return pages


def _faults(chance: random.Random, count: int, kinds: Sequence[FaultKind], pages: int) -> Iterator[Fault]:
    # Not in the last twentieth: a fault needs work to be seen in.
    moments = sorted(chance.sample(range(1, max(count + 1, pages * 19 // 20)), count))
    for kind, after_pages in zip(_deck(chance, kinds, count), moments, strict=True):
        yield Fault(
            kind=kind,
            victim=chance.randrange(_VICTIMS),
            after_pages=after_pages,
            hold_leases=chance.choice(_HOLDS),
        )


def _deck(chance: random.Random, kinds: Sequence[FaultKind], count: int) -> list[FaultKind]:
    """Return so many kinds, each as often as any other, as far as the number allows."""
    dealt: list[FaultKind] = []
    while len(dealt) < count:
        dealt += chance.sample(kinds, len(kinds))
    return dealt[:count]
