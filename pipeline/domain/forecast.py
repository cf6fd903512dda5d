"""How long a job will still take, from what goes before it and how fast such work went lately. Pure.

A forecast, not a promise: whatever comes with a higher priority goes first, and pages are as hard as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


def ahead_of(job: Queued, others: Sequence[Queued], weights: Mapping[str, float]) -> Ahead:
    """Return what goes before a job: by priority, then fair between tenants by weight, then by age.

    Args: others are without the job itself; tenants that weights leaves out weigh 1.
    """
    first = [other for other in others if _goes_first(other, job)]
    pages = sum(other.pages for other in first)
    # While the tenant gets so many pages done, others get theirs by weight, but no more than they have.
    own = job.pages + sum(other.pages for other in first if other.priority == job.priority)
    beside: dict[str, float] = {}
    for other in others:
        if other.tenant != job.tenant and other.priority == job.priority:
            beside[other.tenant] = beside.get(other.tenant, 0.0) + other.pages
    weight = weights.get(job.tenant, 1.0)
    shared = sum(min(has, own * weights.get(tenant, 1.0) / weight) for tenant, has in beside.items())
    return Ahead(jobs=len(first), pages=pages + shared)


def _goes_first(other: Queued, job: Queued) -> bool:
    if other.priority != job.priority:
        return other.priority > job.priority
    return other.tenant == job.tenant and other.since < job.since


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
