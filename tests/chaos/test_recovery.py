from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from pipeline.chaos.recovery import Injected, Sample, felt_by_kind, percentile, recovery
from pipeline.chaos.schedule import Fault, FaultKind
from pipeline.domain.document import ChunkId, JobId
from pipeline.ports.evidence import AttemptEvidence, MoveEvidence, RowEvidence

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
HIT, OTHER = ChunkId(UUID(int=1)), ChunkId(UUID(int=2))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def injected(kind: FaultKind, *, device_id: str | None = None, chunk_id: ChunkId | None = None) -> Injected:
    fault = Fault(kind=kind, victim=0, after_pages=1, hold_leases=1)
    return Injected(fault=fault, at=START, pages=5, device_id=device_id, chunk_id=chunk_id)


def claim(seconds: float, device_id: str, chunk_id: ChunkId) -> AttemptEvidence:
    return AttemptEvidence(
        chunk_id=chunk_id,
        job_id=JobId(UUID(int=9)),
        attempt=1,
        device_id=device_id,
        started_at=at(seconds),
        ended_at=None,
        outcome=None,
        error_code=None,
        pages_done=0,
    )


def test_a_device_has_recovered_with_its_next_claim_or_that_of_its_chunk_by_another() -> None:
    struck = injected(FaultKind.KILL_WORKER, device_id="here/cpu:0", chunk_id=HIT)
    before, elsewhere = claim(-3, "here/cpu:0", HIT), claim(1, "here/cpu:1", OTHER)
    slot, chunk = claim(4, "here/cpu:0", OTHER), claim(7, "here/cpu:1", HIT)
    assert recovery(struck, RowEvidence(attempts=(before, elsewhere, slot, chunk)), ()) == timedelta(seconds=4)
    assert recovery(struck, RowEvidence(attempts=(before, elsewhere, chunk)), ()) == timedelta(seconds=7)
    assert recovery(struck, RowEvidence(attempts=(before, elsewhere)), ()) is None


def test_other_processes_have_recovered_when_one_of_their_kind_moves_a_row() -> None:
    rows = RowEvidence(
        moves=tuple(
            MoveEvidence(at=at(seconds), actor=f"muniment {actor}")
            for seconds, actor in ((-1, "io"), (2, "dispatcher"), (3, "io"))
        )
    )
    assert recovery(injected(FaultKind.KILL_IO), rows, ()) == timedelta(seconds=3)
    assert recovery(injected(FaultKind.STOP_DISPATCHER), rows, ()) == timedelta(seconds=2)


def test_a_service_has_recovered_when_the_next_page_is_in_the_ledger() -> None:
    samples = [Sample(at=at(seconds), pages=pages) for seconds, pages in ((-1, 5), (1, 5), (6, 7))]
    assert recovery(injected(FaultKind.CRASH_DATABASE), RowEvidence(), samples) == timedelta(seconds=6)
    assert recovery(injected(FaultKind.CRASH_DATABASE), RowEvidence(), samples[:2]) is None


def test_messages_take_nothing_away() -> None:
    felt = felt_by_kind([injected(FaultKind.LATE_MESSAGES)] * 2, RowEvidence(), ())
    assert (felt[FaultKind.LATE_MESSAGES].struck, felt[FaultKind.LATE_MESSAGES].p95) == (2, None)


def test_percentiles_are_values_that_were_seen() -> None:
    values = [timedelta(seconds=seconds) for seconds in (9, 1, 5, 3)]
    assert percentile(values, 0.5) == timedelta(seconds=3)
    assert percentile(values, 0.95) == timedelta(seconds=9)
    assert percentile(values[:1], 0.5) == timedelta(seconds=9)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
