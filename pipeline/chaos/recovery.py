"""How long each fault was felt, from the rows and the samples of progress; and the table's percentiles.

A fault that took a process of a device is over when the same slot claims a chunk, or when the chunk that was hit is
claimed by anyone, whichever is first. One that took an io worker or a dispatcher is over when a process of its kind
moves a row. Any other is over when the next page is in the ledger. Counted from the blow, so a stopped process's time
is in it.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from pipeline.chaos.schedule import Fault, FaultKind, Recovery
from pipeline.domain.document import ChunkId
from pipeline.ports.evidence import RowEvidence

_ACTORS = {FaultKind.KILL_IO: "muniment io"}
_DISPATCHER = "muniment dispatcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A fault that has struck."""

    fault: Fault
    at: datetime
    pages: int
    """That were in the ledger just before."""
    device_id: str | None = None
    """Of a fault that hit the processes of a device."""
    chunk_id: ChunkId | None = None
    """What that device was reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How many pages were in the ledger at a moment, as the drill saw it."""

    at: datetime
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Felt:
    """The faults of one kind."""

    struck: int
    recovered: int
    """Those whose recovery was seen; at the end of a drill there may be nothing left to see it by."""
    p50: timedelta | None
    p95: timedelta | None
    longest: timedelta | None


def recovery(injected: Injected, rows: RowEvidence, samples: Sequence[Sample]) -> timedelta | None:
    """Return how long the fault was felt; None where that was not seen."""
    match injected.fault.kind.recovers_by:
        case Recovery.CLAIM:
            signs = (
                attempt.started_at
                for attempt in rows.attempts
                if attempt.device_id == injected.device_id or attempt.chunk_id == injected.chunk_id
            )
        case Recovery.MOVE:
            actor = _ACTORS.get(injected.fault.kind, _DISPATCHER)
            signs = (move.at for move in rows.moves if move.actor == actor)
        case Recovery.PAGE:
            signs = (sample.at for sample in samples if sample.pages > injected.pages)
        case Recovery.NONE:
            return None
        case by:
            assert_never(by)
    first = min((at for at in signs if at > injected.at), default=None)
    return first - injected.at if first else None


def felt_by_kind(
    injected: Iterable[Injected], rows: RowEvidence, samples: Sequence[Sample]
) -> Mapping[FaultKind, Felt]:
    """Return what each kind of fault cost, in the order of their declaration."""
    times: dict[FaultKind, list[timedelta | None]] = defaultdict(list)
    for one in injected:
        times[one.fault.kind].append(recovery(one, rows, samples))
    return {kind: _felt(times[kind]) for kind in FaultKind if kind in times}


def percentile(values: Sequence[timedelta], share: float) -> timedelta:
    """Return the smallest value that so large a share does not exceed (nearest rank). Raises: ValueError, if empty."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _felt(times: Sequence[timedelta | None]) -> Felt:
    seen = [time for time in times if time is not None]
    return Felt(
        struck=len(times),
        recovered=len(seen),
        p50=percentile(seen, 0.5) if seen else None,
        p95=percentile(seen, 0.95) if seen else None,
        longest=max(seen, default=None),
    )
