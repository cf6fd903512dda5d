"""Decides what follows a failed or lost attempt, from the cause and the counts alone; the adapters write it down.

A retry is a row that becomes due again after a while. Attempts that failed for the work's own reason, those that were
lost with their worker, and those put off because a service was away are counted apart: they say different things about
the work, so each has a bound of its own, and an hour without a store brings no page nearer to being given up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from itertools import pairwise
from typing import assert_never

from pipeline.domain.batches import Misfit
from pipeline.domain.document import PageRange
from pipeline.domain.errors import ErrorCode


class Fault(StrEnum):
    """Whose fault an error is, as far as trying again is concerned."""

    DOCUMENT = "document"
    """Trying again changes nothing."""
    PAGE = "page"
    """One page of the chunk can't be read; trying again changes nothing for it."""
    PROCESS = "process"
    """The attempt took its process down with it."""
    UNEXPLAINED = "unexplained"
    WORKER = "worker"
    """The worker, its host or its network went away."""
    ENGINE = "engine"
    """The worker can't run the engine that the work wants; another one may."""
    SOURCE = "source"
    """The server that the document is fetched from does not answer; everybody else can go on."""
    SERVICE = "service"
    """A service that everybody needs is away."""
    ENDED = "ended"
    """The job is over, or its rows contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLimits:
    """How often something is tried."""

    max_attempts: int
    """Attempts that failed for a reason of the work's own."""
    max_lost: int
    """Attempts lost with their worker, on one that can't run the engine, or for want of the document's server."""
    max_waits: int
    """Attempts put off because a service was away, at most a minute apart."""

    def __post_init__(self) -> None:
        if min(self.max_attempts, self.max_lost, self.max_waits) < 1:
            raise ValueError(f"at least one attempt is needed, got {self}")


class Counter(StrEnum):
    """Which of a row's counts an attempt that ended badly goes to; the names are those of the columns."""

    FAILURES = "failures"
    LOST = "lost"
    WAITS = "waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """How often a chunk, or a job's current step, has been tried in vain."""

    failures: int = 0
    lost: int = 0
    waits: int = 0

    def and_one(self, code: ErrorCode) -> "Attempts":
        """Return the counts with one more attempt, which ended with this code."""
        counter = counter_of(code).value
        return replace(self, **{counter: getattr(self, counter) + 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The row becomes due again."""

    after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The chunk is replaced by smaller ones, see `split_range`, to set a poison page apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The chunk or job ends; its unfinished pages end as failed with this code."""

    code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWith:
    """The chunk becomes due again at once, for another engine, which has all attempts before it."""

    engine: str
    misfit: Misfit | None = None
    """What there was no memory for, to be remembered if the other engine has."""


ChunkDecision = Retry | Split | GiveUp | ReadWith
StepDecision = Retry | GiveUp

_DEATHS_BEFORE_SPLIT = 2
"""A process that dies once may have been unlucky; twice on the same pages, one of them is suspect."""
_MOST_DOUBLINGS = 16
"""Far past every longest wait, and far from the largest timedelta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backoff:
    first: timedelta
    longest: timedelta


_OWN = _Backoff(first=timedelta(seconds=0.5), longest=timedelta(seconds=10))
_SURROUNDINGS = _Backoff(first=timedelta(seconds=1), longest=timedelta(seconds=60))


def decide(
    code: ErrorCode,
    *,
    attempts: Attempts,
    pages_left: int,
    limits: AttemptLimits,
    jitter: float,
    other_engine: str | None = None,
    misfit: Misfit | None = None,
) -> ChunkDecision:
    """Return what becomes of a chunk whose attempt has just ended badly.

    Args: attempts counts the chunk's attempts so far, this one included; pages_left counts its pages without an
        outcome; jitter is random in [0, 1); other_engine is what may read what this one has no memory for, which is
        the misfit.
    """
    if pages_left > 1 and _is_poisoned(code, attempts=attempts, limits=limits):
        return Split()
    decision = decide_step(code, attempts=attempts, limits=limits, jitter=jitter)
    if isinstance(decision, GiveUp) and code is ErrorCode.OUT_OF_MEMORY and other_engine:
        return ReadWith(engine=other_engine, misfit=misfit)
    return decision


def decide_step(code: ErrorCode, *, attempts: Attempts, limits: AttemptLimits, jitter: float) -> StepDecision:
    """Return what becomes of a job whose step has just ended badly, or of a chunk that can't be split.

    Args: as for `decide`; the counts are those of the job's current step.
    """
    fault = fault_of(code)
    match fault:
        case Fault.DOCUMENT | Fault.PAGE | Fault.ENDED:
            return GiveUp(code=code)
        case Fault.SERVICE if attempts.waits < limits.max_waits:
            return Retry(after=_delay(attempts.waits, _SURROUNDINGS, jitter))
        case Fault.WORKER | Fault.ENGINE | Fault.SOURCE if attempts.lost < limits.max_lost:
            return Retry(after=_delay(attempts.lost, _SURROUNDINGS, jitter))
        case Fault.PROCESS | Fault.UNEXPLAINED if attempts.failures < limits.max_attempts:
            return Retry(after=_delay(attempts.failures, _OWN, jitter))
        case Fault.WORKER:
            # That the last lease ran out says nothing of use to whoever reads the row.
            return GiveUp(code=ErrorCode.TOO_MANY_ATTEMPTS)
        case Fault.SERVICE | Fault.ENGINE | Fault.SOURCE | Fault.PROCESS | Fault.UNEXPLAINED:
            return GiveUp(code=code)
        case _:
            assert_never(fault)


def counter_of(code: ErrorCode) -> Counter:
    """Return where an attempt that ended with this code is counted."""
    match fault_of(code):
        case Fault.WORKER | Fault.ENGINE | Fault.SOURCE:
            return Counter.LOST
        case Fault.SERVICE:
            return Counter.WAITS
        case Fault.DOCUMENT | Fault.PAGE | Fault.PROCESS | Fault.UNEXPLAINED | Fault.ENDED:
            return Counter.FAILURES


def fault_of(code: ErrorCode) -> Fault:
    """Return whose fault an error is."""
    return _FAULTS[code]


def split_range(pages: Sequence[int], *, suspect: int | None = None) -> tuple[PageRange, ...]:
    """Return how the unfinished pages of a chunk are divided, in page order: a suspect alone, else runs in halves.

    Each part is smaller than the whole unless that is a single page, so repeating it ends with single pages.

    Args: pages are numbers in ascending order; suspect is the page that was being read when the process ended. If it
        is none of them, each contiguous run is halved, the first half being the longer.
    Raises: ValueError, if there is no page, or they are not in ascending order.
    """
    if not pages or any(later <= earlier for earlier, later in pairwise(pages)):
        raise ValueError(f"no ascending page numbers: {list(pages)}")
    if suspect is None or suspect not in pages:
        return tuple(half for run in _runs(pages) for half in _halves(run))
    before = _runs([number for number in pages if number < suspect])
    after = _runs([number for number in pages if number > suspect])
    return (*before, PageRange(first=suspect, last=suspect), *after)


def _is_poisoned(code: ErrorCode, *, attempts: Attempts, limits: AttemptLimits) -> bool:
    """Whether one page of the chunk is to blame, so that the others should go on without it."""
    fault = fault_of(code)
    match fault:
        case Fault.PAGE:
            return True
        case Fault.PROCESS:
            return attempts.failures >= min(_DEATHS_BEFORE_SPLIT, limits.max_attempts)
        case Fault.UNEXPLAINED:
            return attempts.failures >= limits.max_attempts
        case Fault.WORKER:
            # Whatever takes whole workers down time and again may well be a page.
            return attempts.lost >= limits.max_lost
        case Fault.DOCUMENT | Fault.SERVICE | Fault.ENGINE | Fault.SOURCE | Fault.ENDED:
            return False
        case _:
            assert_never(fault)


def _delay(count: int, backoff: _Backoff, jitter: float) -> timedelta:
    """Return a wait between the first and the longest, doubling with the count, half of it left to chance."""
    ceiling: timedelta = min(backoff.longest, backoff.first * 2 ** min(max(count, 1), _MOST_DOUBLINGS))
    return ceiling * (1 + jitter) / 2


def _runs(pages: Sequence[int]) -> list[PageRange]:
    """Return ascending page numbers as the fewest ranges."""
    runs: list[PageRange] = []
    for number in pages:
        if runs and runs[-1].last + 1 == number:
            runs[-1] = PageRange(first=runs[-1].first, last=number)
        else:
            runs.append(PageRange(first=number, last=number))
    return runs


def _halves(run: PageRange) -> tuple[PageRange, ...]:
    if len(run) == 1:
        return (run,)
    middle = (run.first + run.last) // 2
    return (PageRange(first=run.first, last=middle), PageRange(first=middle + 1, last=run.last))


_FAULTS = {
    ErrorCode.INVALID_OPTIONS: Fault.DOCUMENT,
    ErrorCode.SOURCE_NOT_ALLOWED: Fault.DOCUMENT,
    ErrorCode.SOURCE_NOT_FOUND: Fault.DOCUMENT,
    ErrorCode.FILE_TOO_LARGE: Fault.DOCUMENT,
    ErrorCode.EMPTY_FILE: Fault.DOCUMENT,
    ErrorCode.NOT_A_DOCUMENT: Fault.DOCUMENT,
    ErrorCode.UNSUPPORTED_TYPE: Fault.DOCUMENT,
    ErrorCode.DAMAGED: Fault.DOCUMENT,
    ErrorCode.PASSWORD_REQUIRED: Fault.DOCUMENT,
    ErrorCode.PASSWORD_WRONG: Fault.DOCUMENT,
    ErrorCode.ZERO_PAGES: Fault.DOCUMENT,
    ErrorCode.DOES_NOT_FIT: Fault.DOCUMENT,
    ErrorCode.TOO_MANY_PAGES: Fault.DOCUMENT,
    # These two may be said of a document or of a single page; what helps the page is right for both.
    ErrorCode.PAGE_TOO_LARGE: Fault.PAGE,
    ErrorCode.DECOMPRESSION_BOMB: Fault.PAGE,
    ErrorCode.PAGE_DAMAGED: Fault.PAGE,
    ErrorCode.ENGINE_FAILED: Fault.UNEXPLAINED,
    ErrorCode.PROCESS_DIED: Fault.PROCESS,
    ErrorCode.STALLED: Fault.PROCESS,
    ErrorCode.OUT_OF_MEMORY: Fault.PROCESS,
    ErrorCode.DEVICE_BROKEN: Fault.PROCESS,
    ErrorCode.LEASE_EXPIRED: Fault.WORKER,
    ErrorCode.STORE_UNAVAILABLE: Fault.SERVICE,
    ErrorCode.DATABASE_UNAVAILABLE: Fault.SERVICE,
    ErrorCode.BROKER_UNAVAILABLE: Fault.SERVICE,
    ErrorCode.ENGINE_UNAVAILABLE: Fault.ENGINE,
    ErrorCode.SOURCE_UNAVAILABLE: Fault.SOURCE,
    ErrorCode.QUEUE_FULL: Fault.DOCUMENT,
    ErrorCode.CANCELLED: Fault.ENDED,
    ErrorCode.DEADLINE_PASSED: Fault.ENDED,
    ErrorCode.NO_PROGRESS: Fault.ENDED,
    ErrorCode.TOO_MANY_ATTEMPTS: Fault.ENDED,
    ErrorCode.SOME_PAGES_FAILED: Fault.ENDED,
    ErrorCode.ALL_PAGES_FAILED: Fault.ENDED,
    ErrorCode.LEDGER_BROKEN: Fault.ENDED,
    ErrorCode.INTERNAL: Fault.UNEXPLAINED,
}
"""Complete; a test fails for a code that is missing here."""
