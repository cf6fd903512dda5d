from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.forecast import MOST, Ahead, Queue, Queued, Speed, TimeLeft, time_left

MORNING = datetime(2026, 1, 1, 8, tzinfo=UTC)


def job(tenant="museum", *, pages=10.0, priority=0, minute=30):
    return Queued(tenant=tenant, priority=priority, since=MORNING + timedelta(minutes=minute), pages=pages)


@pytest.mark.parametrize(
    ("others", "ahead"),
    [
        ([], Ahead(jobs=0, pages=0)),
        ([job(minute=1, pages=4)], Ahead(jobs=1, pages=4)),
        ([job(minute=50, pages=4)], Ahead(jobs=0, pages=0)),
        ([job(minute=50, pages=4, priority=1)], Ahead(jobs=1, pages=4)),
        ([job("library", minute=50, pages=4, priority=1)], Ahead(jobs=1, pages=4)),
        ([job(minute=1, pages=4, priority=-1)], Ahead(jobs=0, pages=0)),
        ([job("library", minute=1, pages=1000)], Ahead(jobs=0, pages=10)),
        ([job("library", minute=50, pages=3)], Ahead(jobs=0, pages=3)),
        ([job(minute=1, pages=4), job("library", pages=1000)], Ahead(jobs=1, pages=4 + 14)),
        ([job("archive", pages=1000)], Ahead(jobs=0, pages=30)),
    ],
    ids=[
        "nothing", "older", "younger", "higher", "higher of another", "lower", "a long one of another shares",
        "a short one of another shares no more than it has", "both", "a tenant of three times the weight",
    ],
)  # fmt: skip
def test_what_goes_before_a_job(others, ahead):
    assert Queue(others, {"archive": 3.0}).ahead_of(job()) == ahead
    assert Queue([*others, job()], {"archive": 3.0}).ahead_of(job()) == ahead


queued = st.builds(
    job,
    st.sampled_from(["museum", "library", "archive"]),
    pages=st.floats(0, 1e6),
    priority=st.integers(-2, 2),
    minute=st.integers(0, 60),
)


@given(queued, st.lists(queued, max_size=8), queued)
def test_more_work_never_lets_a_job_come_sooner(own, others, one_more):
    before, after = Queue(others, {}).ahead_of(own), Queue([*others, one_more], {}).ahead_of(own)
    assert after.pages >= before.pages - 1e-6
    assert after.jobs >= before.jobs
    assert after.pages <= sum(other.pages for other in [*others, one_more]) + 1e-6


SPEED = Speed(devices=2, ms_a_page=1000, least_pace=0.5, most_pace=2.0)


@pytest.mark.parametrize(
    ("ahead", "own_ms", "own_chunks", "left"),
    [
        (0, 8000, 4, (2, 8)),
        (0, 8000, 1, (4, 16)),
        (10, 8000, 4, (4.5, 18)),
    ],
    ids=["spread over both devices", "one chunk is on one", "behind others"],
)
def test_time_left_is_between_how_fast_and_how_slow_it_went(ahead, own_ms, own_chunks, left):
    found = time_left(Ahead(jobs=0, pages=ahead), own_ms=own_ms, own_chunks=own_chunks, speed=SPEED)
    assert found == TimeLeft(least=timedelta(seconds=left[0]), most=timedelta(seconds=left[1]))


def test_nothing_is_foreseen_without_a_device_or_beyond_all_bounds():
    nobody = Speed(devices=0, ms_a_page=1000, least_pace=1, most_pace=1)
    assert time_left(Ahead(jobs=0, pages=0), own_ms=1, own_chunks=1, speed=nobody) is None
    found = time_left(Ahead(jobs=1, pages=1e15), own_ms=1, own_chunks=1, speed=SPEED)
    assert found == TimeLeft(least=MOST, most=MOST)
