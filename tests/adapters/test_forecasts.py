"""What is foreseen of jobs, from their rows."""

from datetime import timedelta

import pytest

from pipeline.adapters.forecasts import PostgresForecasts
from pipeline.domain.document import Lane
from tests.rows import unknown


@pytest.fixture
def foreseen(rows):
    """What one who looks for the first time is told."""
    return lambda job_id: PostgresForecasts(rows.engine).of([job_id]).get(job_id)


def done_in(rows, seconds, *, chunks, estimated_s):
    """Have the device do chunks of two pages in so long, which were estimated to take so much."""
    job_id, claimed = rows.claimed(*[2] * chunks)
    rows.sql("UPDATE chunk SET cost_ms = 1000 * :estimated", estimated=estimated_s)
    for chunk in claimed:
        rows.read(chunk)
    rows.sql(
        "UPDATE chunk_attempt SET ended_at = started_at + make_interval(secs => :seconds * (0.8 + 0.1 * part))"
        " FROM (SELECT id, row_number() OVER (ORDER BY ordinal) AS part FROM chunk) AS numbered"
        " WHERE numbered.id = chunk_id",
        seconds=seconds,
    )
    return job_id


def test_time_left_is_estimated_cost_at_the_pace_of_late(rows, foreseen):
    rows.hold_device()
    # Three chunks that took 0.9, 1.0 and 1.1 times the 20 seconds: paces around 2.
    done_in(rows, 20, chunks=3, estimated_s=10)
    job_id = rows.running(2, 2)
    rows.sql("UPDATE chunk SET cost_ms = 30000 WHERE job_id = :id", id=job_id)
    forecast = foreseen(job_id)
    assert (forecast.ahead.jobs, forecast.ahead.pages) == (0, 0)
    assert forecast.time_left.least == timedelta(seconds=60 * 1.9)
    assert forecast.time_left.most == timedelta(seconds=60 * 2.1)


def test_what_is_queued_before_it_counts(rows, foreseen):
    rows.hold_device()
    done_in(rows, 10, chunks=4, estimated_s=10)
    rows.running(6, 6, tenant="museum")
    rows.running(50, tenant="library")
    paused = rows.running(99, tenant="museum")
    rows.sql("UPDATE job SET paused = true WHERE id = :id", id=paused)
    job_id = rows.running(4, tenant="museum")
    rows.running(8, tenant="museum")
    forecast = foreseen(job_id)
    # Twelve pages of its own tenant, and as many of the other as of these and its own.
    assert (forecast.ahead.jobs, forecast.ahead.pages) == (1, 12 + 16)
    alone = foreseen(rows.running(4, tenant="archive", priority=5))
    assert alone.ahead.pages == 0
    assert alone.time_left.most < forecast.time_left.least


def test_nothing_is_told_of_a_speed_that_nobody_has_measured(rows, foreseen):
    rows.hold_device()
    done_in(rows, 10, chunks=2, estimated_s=10)
    assert foreseen(rows.running(2, 2)).time_left is None


def test_nothing_is_told_of_work_that_no_device_does(rows, foreseen):
    rows.hold_device()
    done_in(rows, 10, chunks=3, estimated_s=10)
    job_id = rows.running(2, 2)
    assert foreseen(job_id).time_left is not None
    rows.sql("UPDATE device SET lease_until = clock_timestamp() - interval '1 s'")
    assert foreseen(job_id).time_left is None


def test_nothing_is_foreseen_of_what_is_not_planned_or_has_its_pages(rows, foreseen):
    assert foreseen(rows.submitted()) is None
    assert foreseen(rows.ended(2)) is None
    assert foreseen(unknown()) is None


def test_a_queue_is_looked_at_once_for_many_who_ask(rows):
    forecasts = PostgresForecasts(rows.engine)
    first = rows.running(2)
    assert forecasts.of([first])[first].ahead.jobs == 0
    second = rows.running(3)
    assert forecasts.of([first, second])[second].ahead.jobs == 1
    assert rows.take_chunks(10, Lane.CPU)
