"""How long a job will still take, from what goes before it and how fast such work went lately. Pure.

A forecast, not a promise: whatever comes with a higher priority goes first, and pages are as hard as they are.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

MOST = timedelta(days=3650)
"""Nothing is foreseen beyond; whoever waits so long is not told to the hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A job with chunks to be done, as far as others wait for it."""

    tenant: str
    priority: int
    since: datetime
    pages: float
    """That are left of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What goes before a job."""

    jobs: int
    """Of a higher priority; or of its own tenant, as high and older."""
    pages: float
    """Of these, and those that its fair share leaves to other tenants meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a lane went lately."""

    devices: int
    ms_a_page: float
    """That a page was estimated to take, on average."""
    least_pace: float
    most_pace: float
    """How many times longer than estimated chunks took: a quarter of them took less, a quarter more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """Between these a job will probably end."""

    least: timedelta
    most: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is foreseen of a job that has its pages before it."""

    ahead: Ahead
    time_left: TimeLeft | None
    """None while too little is known of the lane's speed."""


@dataclass(slots=True)
class _Line:
    """A tenant's jobs of one priority, oldest first."""

    since: list[datetime] = field(default_factory=list)
    pages: list[float] = field(default_factory=lambda: [0.0])
    """Of the first n of them, from none to all."""


class Queue:
    """What waits, put in order once for all who ask what goes before them."""

    def __init__(self, queued: Iterable[Queued], weights: Mapping[str, float]) -> None:
        """Args: weights are the tenants'; those left out weigh 1."""
        self._weights = weights
        self._lines: dict[int, dict[str, _Line]] = {}
        for job in sorted(queued, key=lambda job: job.since):
            line = self._lines.setdefault(job.priority, {}).setdefault(job.tenant, _Line())
            line.since.append(job.since)
            line.pages.append(line.pages[-1] + job.pages)

    def ahead_of(self, job: Queued) -> Ahead:
        """Return what goes before a job: by priority, then fair between tenants by weight, then by age.

        The job itself may be queued, too: nothing goes before itself.
        """
        higher = [line for priority, lines in self._lines.items() if priority > job.priority for line in lines.values()]
        beside = dict(self._lines.get(job.priority, {}))
        mine = beside.pop(job.tenant, _Line())
        older = bisect_left(mine.since, job.since)
        # While the tenant gets so many pages done, others get theirs by weight, but no more than they have.
        own = (job.pages + mine.pages[older]) / self._weight(job.tenant)
        shared = sum(min(line.pages[-1], own * self._weight(tenant)) for tenant, line in beside.items())
        return Ahead(
            jobs=older + sum(len(line.since) for line in higher),
            pages=mine.pages[older] + sum(line.pages[-1] for line in higher) + shared,
        )

    def _weight(self, tenant: str) -> float:
        return self._weights.get(tenant, 1.0)


def time_left(ahead: Ahead, *, own_ms: float, own_chunks: int, speed: Speed) -> TimeLeft | None:
    """Return how long a job will take; None where nobody does such work.

    Args: own_ms is what its open chunks are estimated to take on one device; own_chunks how many may go on at once.
    """
    if speed.devices < 1:
        return None
    waiting_ms = ahead.pages * speed.ms_a_page / speed.devices
    estimated = waiting_ms + own_ms / max(1, min(speed.devices, own_chunks))
    least, most = (min(estimated * pace / 1000, MOST.total_seconds()) for pace in (speed.least_pace, speed.most_pace))
    return TimeLeft(least=timedelta(seconds=least), most=timedelta(seconds=most))
