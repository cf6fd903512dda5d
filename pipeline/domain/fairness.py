"""Decides whose waiting work goes next: by priority, then fair between tenants by weight, then by age. Pure.

Fairness is start-time fair queueing: each admission of a tenant starts where its last one finished on a virtual clock,
and finishes later by the work's cost divided by the tenant's weight; the earliest start goes next. A tenant that had
nothing to do starts at the clock's present, so that being idle saves up nothing.

Source: P. Goyal, H. M. Vin, H. Cheng, "Start-time Fair Queueing", IEEE/ACM Transactions on Networking 5(5), 1997.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a tenant has had of a queue so far, on the queue's virtual clock, in weighted milliseconds."""

    weight: float = 1.0
    started: float = 0.0
    """When its latest admission started; the queue's present is the latest of all."""
    finished: float = 0.0

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ValueError(f"a weight is above 0, got {self.weight}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Generic[Item]):
    """Something that may be admitted."""

    item: Item
    priority: int
    since: datetime
    cost_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How much may be on its way in one queue at once.

    `least` in any case, more only of work so short that it would be done before the next look at the rows.
    """

    least: int
    most: int
    ahead_ms: int
    """Work in flight that is enough beyond `least`, by its estimated cost."""

    def has_room(self, count: int, cost_ms: int) -> bool:
        """Whether one more fits beside this many, of this cost together."""
        return count < self.least or (count < self.most and cost_ms < self.ahead_ms)


def next_in_turn(
    shares: Mapping[str, Share],
    waiting: Mapping[str, Sequence[Waiting[Item]]],
    window: Window,
    count: int,
    cost_ms: int,
) -> tuple[list[Item], dict[str, Share]]:
    """Return what goes next, best first, as far as the window has room, and the shares that this changes.

    Args: shares holds each tenant, also those with nothing to do; waiting holds each tenant's own best, best first;
        count and cost_ms say what is in flight already.
    """
    shares = dict(shares)
    queues = {tenant: list(reversed(items)) for tenant, items in waiting.items() if items}
    present = max((share.started for share in shares.values()), default=0.0)
    chosen: list[Item] = []
    changed: dict[str, Share] = {}
    while queues and window.has_room(count, cost_ms):
        tenant = min(queues, key=lambda name: _rank(queues[name][-1], shares[name], present))
        best = queues[tenant].pop()
        if not queues[tenant]:
            del queues[tenant]
        chosen.append(best.item)
        count, cost_ms = count + 1, cost_ms + best.cost_ms
        shares[tenant] = changed[tenant] = _after(shares[tenant], best, present)
        present = shares[tenant].started
    return chosen, changed


def _rank(best: Waiting[Item], share: Share, present: float) -> tuple[int, float, datetime]:
    return (-best.priority, max(present, share.finished), best.since)


def _after(share: Share, admitted: Waiting[Item], present: float) -> Share:
    start = max(present, share.finished)
    return Share(weight=share.weight, started=start, finished=start + max(1, admitted.cost_ms) / share.weight)
