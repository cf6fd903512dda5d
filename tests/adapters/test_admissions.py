"""What dispatchers do with rows, over the real database."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from pipeline.adapters.admissions import PostgresAdmissions
from pipeline.domain.document import Lane
from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove
from pipeline.domain.fairness import Window
from pipeline.domain.retry import GiveUp, Retry
from pipeline.domain.states import AttemptOutcome, ChunkState, JobState, Step
from pipeline.ports.chunks import Measured
from pipeline.ports.devices import DeviceInfo
from tests.rows import DEVICE, entry, window

NOW = timedelta(0)
EXPIRED = PipelineError(ErrorCode.LEASE_EXPIRED, "not heard of")


def test_many_dispatchers_take_each_row_once(rows):
    jobs = {rows.submitted() for _ in range(40)}
    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(lambda _: rows.admissions.take_jobs(window(25)), range(12)))
    taken = [due.job_id for batch in batches for due in batch]
    # Together they fill the window once, and nothing beyond it.
    assert len(taken) == len(set(taken)) == 25
    assert set(taken) <= jobs
    assert len(rows.take_jobs(100)) == 15


def test_higher_priority_goes_first_then_age(rows):
    old, new, urgent = rows.submitted(), rows.submitted(), rows.submitted(priority=5)
    assert [due.job_id for _ in range(3) for due in rows.take_jobs(1)] == [urgent, old, new]


def test_a_short_job_has_room_of_its_own_beside_a_long_one(rows):
    long = rows.running(*[1] * 10)
    assert len(rows.admissions.take_chunks(Lane.CPU, window(2))) == 2
    short, other = rows.running(1, is_short=True), rows.running(1, is_short=True)
    assert rows.admissions.take_chunks(Lane.CPU, window(2)) == []
    [first] = rows.admissions.take_express(Lane.CPU, window(1))
    assert (first.job_id, first.is_short) == (short, True)
    # Until it is done its room is taken; the other short one waits its turn like any.
    assert rows.admissions.take_express(Lane.CPU, window(1)) == []
    rows.read(rows.chunks.claim(first.chunk_id, 1, device_id=DEVICE))
    assert [due.job_id for due in rows.admissions.take_express(Lane.CPU, window(1))] == [other]
    assert [due.job_id for due in rows.admissions.take_chunks(Lane.CPU, window(3))] == [long]


def test_chunks_of_a_short_job_are_short_by_whichever_way_they_are_admitted(rows):
    long, short = rows.running(1), rows.running(1, 1, is_short=True)
    admitted = rows.admissions.take_express(Lane.CPU, window(1)) + rows.admissions.take_chunks(Lane.CPU, window(2))
    assert [(due.job_id, due.is_short) for due in admitted] == [(short, True), (long, False), (short, True)]
    again = rows.sweeps.unstarted_chunks(Lane.CPU, timedelta(0))
    assert sorted((due.job_id, due.is_short) for due in again) == sorted((due.job_id, due.is_short) for due in admitted)


def test_very_short_chunks_fill_the_window_beyond_its_least_until_there_is_work_enough(rows):
    rows.running(*[1] * 50)
    admitted = rows.admissions.take_chunks(Lane.CPU, Window(least=2, most=20, ahead_ms=7_000))
    assert len(admitted) == 7


def test_the_pace_is_what_chunks_took_lately_against_what_was_estimated(rows):
    rows.hold_device()
    assert PostgresAdmissions(rows.engine).pace(Lane.CPU) == 1.0
    _, chunks = rows.claimed(1, 1)
    for chunk in chunks:
        rows.read(chunk)
    # Each is estimated to take a second.
    rows.sql("UPDATE chunk_attempt SET started_at = ended_at - interval '5 s'")
    assert PostgresAdmissions(rows.engine).pace(Lane.CPU) == pytest.approx(5)
    assert PostgresAdmissions(rows.engine).pace(Lane.GPU) == 1.0


def test_what_a_retry_left_undone_of_a_chunk_counts_for_nothing_in_the_pace(rows):
    rows.hold_device()
    _, [chunk] = rows.claimed(10)
    rows.chunks.record(chunk.claim, [entry(1)])
    rows.chunks.hand_back(chunk.claim, AttemptOutcome.DRAINED, Measured())
    rows.sql("UPDATE chunk_attempt SET started_at = ended_at - interval '2 s'")
    assert PostgresAdmissions(rows.engine).pace(Lane.CPU) == pytest.approx(2)


def test_tenants_take_turns_by_weight_whatever_they_have_queued(rows):
    many = rows.running(*[1] * 60, tenant="many")
    few = rows.running(*[1] * 20, tenant="few")
    heavy = rows.running(*[1] * 60, tenant="heavy")
    rows.control.set_tenant("heavy", weight=2, max_queued_pages=None)
    taken = [due.job_id for due in rows.take_chunks(40, Lane.CPU)]
    assert [taken.count(job) for job in (many, few, heavy)] == [10, 10, 20]
    # In small steps, by whichever dispatcher, it is the same.
    taken = [due.job_id for _ in range(40) for due in rows.take_chunks(1, Lane.CPU)]
    assert [taken.count(job) for job in (many, few, heavy)] == [10, 10, 20]


def test_a_tenant_that_was_idle_has_not_saved_up_turns(rows):
    rows.running(*[1] * 40, tenant="busy")
    assert len(rows.take_chunks(20, Lane.CPU)) == 20
    late = rows.running(*[1] * 20, tenant="late")
    taken = [due.job_id for due in rows.take_chunks(10, Lane.CPU)]
    assert taken.count(late) == 5


def test_priority_goes_before_fairness(rows):
    rows.running(*[1] * 5, tenant="a")
    urgent = rows.running(*[1] * 5, tenant="b", priority=1)
    assert {due.job_id for due in rows.take_chunks(5, Lane.CPU)} == {urgent}


def test_what_was_begun_is_finished_before_something_new_begins(rows):
    submitted = rows.submitted()
    _, [chunk] = rows.claimed(1)
    rows.read(chunk)
    assert [due.step for _ in range(2) for due in rows.take_jobs(1)] == [Step.MERGE, Step.INGEST]
    assert rows.state("job", submitted) == JobState.SUBMITTED


def test_what_is_taken_together_goes_out_best_first(rows):
    jobs = [rows.submitted(priority=number % 7) for number in range(20)]
    taken = [due.job_id for due in rows.take_jobs(20)]
    assert taken == sorted(jobs, key=lambda job: -(jobs.index(job) % 7))
    job_id = rows.running(*[1] * 20)
    ordinals = {row.id: row.ordinal for row in rows.sql("SELECT id, ordinal FROM chunk WHERE job_id = :id", id=job_id)}
    assert [ordinals[due.chunk_id] for due in rows.take_chunks(20, Lane.CPU)] == list(range(20))


@pytest.mark.parametrize(
    "held", ["UPDATE job SET paused = {}", "UPDATE tenant SET paused = {}", "UPDATE job SET off_hours = {}"]
)
def test_what_is_to_wait_is_not_admitted(rows, held):
    job_id = rows.running(1)
    rows.sql(held.format("true"))
    assert rows.take_chunks(10, Lane.CPU) == []
    rows.sql(held.format("false"))
    assert [due.job_id for due in rows.take_chunks(10, Lane.CPU)] == [job_id]


def test_lanes_are_apart(rows):
    rows.running(1, lane=Lane.GPU)
    assert rows.take_chunks(10, Lane.CPU) == []
    assert len(rows.take_chunks(10, Lane.GPU)) == 1
    assert rows.admissions.take_chunks(Lane.GPU, window(1)) == []


def test_what_was_sent_and_not_taken_is_sent_again_at_the_same_attempt(rows):
    _, [due] = rows.admitted(1)
    assert rows.sweeps.unstarted_chunks(Lane.CPU, timedelta(minutes=1)) == []
    assert rows.sweeps.unstarted_chunks(Lane.CPU, NOW) == [due]
    rows.chunks.claim(due.chunk_id, due.attempt, device_id=DEVICE)
    assert rows.sweeps.unstarted_chunks(Lane.CPU, NOW) == []


def test_a_step_that_was_sent_and_not_taken_is_sent_again(rows):
    job_id = rows.submitted()
    [due] = rows.take_jobs(1)
    assert rows.sweeps.unstarted_jobs(NOW) == [due]
    rows.jobs.claim(job_id, Step.INGEST, due.attempt)
    assert rows.sweeps.unstarted_jobs(NOW) == []


def test_what_the_broker_did_not_take_is_due_again(rows):
    rows.submitted()
    rows.running(1)
    jobs, chunks = rows.take_jobs(1), rows.take_chunks(1, Lane.CPU)
    rows.admissions.unsent(jobs, chunks)
    assert rows.take_jobs(1) == jobs
    assert rows.take_chunks(1, Lane.CPU) == chunks


def test_only_an_expired_chunk_is_reclaimed(rows):
    _, [chunk] = rows.claimed(2)
    assert rows.sweeps.expired_chunks() == []
    rows.expire(chunk.claim.chunk_id)
    [expired] = rows.sweeps.expired_chunks()
    assert (expired.claim, expired.pages_left) == (chunk.claim, 2)
    rows.chunks.renew(chunk.claim)
    with pytest.raises(StaleMove):
        rows.sweeps.reclaim(expired, EXPIRED, Retry(after=NOW))
    assert rows.state("chunk", chunk.claim.chunk_id) == ChunkState.RUNNING


def test_a_reclaimed_chunk_goes_to_another_and_its_former_holder_writes_nothing(rows):
    job_id, [chunk] = rows.claimed(2)
    rows.chunks.record(chunk.claim, [entry(1)])
    rows.expire(chunk.claim.chunk_id)
    [expired] = rows.sweeps.expired_chunks()
    rows.sweeps.reclaim(expired, EXPIRED, Retry(after=NOW))
    [due] = rows.take_chunks(1, Lane.CPU)
    other = rows.as_owner("worker/2")
    again = other.chunks.claim(due.chunk_id, 2, device_id=DEVICE)
    with pytest.raises(StaleMove):
        rows.chunks.record(chunk.claim, [entry(2)])
    other.read(again)
    assert rows.state("job", job_id) == JobState.MERGING
    attempts = rows.sql("SELECT attempt, outcome, error_code FROM chunk_attempt ORDER BY attempt")
    assert [tuple(attempt) for attempt in attempts] == [(1, "lost", "lease_expired"), (2, "done", None)]


def test_a_chunk_that_lost_too_many_holders_is_given_up(rows):
    job_id, [chunk] = rows.claimed(1)
    rows.expire(chunk.claim.chunk_id)
    [expired] = rows.sweeps.expired_chunks()
    rows.sweeps.reclaim(expired, EXPIRED, GiveUp(code=ErrorCode.TOO_MANY_ATTEMPTS))
    assert rows.state("job", job_id) == JobState.MERGING
    [page] = rows.ledger.pages(job_id)
    assert page.error_code == "too_many_attempts"


def test_a_step_whose_holder_was_lost_is_due_again_and_after_too_many_the_job_fails(rows):
    job_id = rows.submitted()
    for lost in range(3):
        [due] = rows.take_jobs(1)
        rows.jobs.claim(job_id, Step.INGEST, due.attempt)
        assert rows.sweeps.reclaim_steps(max_lost=2) == 0
        rows.sql("UPDATE job SET lease_until = clock_timestamp() - interval '1 s'")
        assert rows.sweeps.reclaim_steps(max_lost=2) == 1
        if lost < 2:
            rows.sql("UPDATE job SET not_before = NULL")
    [status] = rows.submissions.find([job_id])
    assert (status.state, status.error_code) == (JobState.FAILED, "too_many_attempts")


def test_a_cancelled_job_that_nobody_works_on_ends_at_once(rows):
    waiting, running = rows.submitted(), rows.running(1, 1)
    rows.cancel([waiting, running])
    assert set(rows.sweeps.end_unwanted()) == {waiting, running}
    assert rows.cancel([waiting, running]) == []
    assert {chunk.state for chunk in rows.sql("SELECT state FROM chunk")} == {ChunkState.CANCELLED}


def test_a_deadline_that_passes_ends_the_job_with_that_cause(rows):
    job_id = rows.running(1)
    rows.sql("UPDATE job SET deadline = clock_timestamp() - interval '1 s'")
    assert rows.sweeps.end_unwanted() == [job_id]
    [status] = rows.submissions.find([job_id])
    assert (status.state, status.error_code) == (JobState.FAILED, "deadline_passed")


def test_a_retry_redoes_failed_pages_and_keeps_the_rest(rows):
    from pipeline.ports.chunks import Measured

    job_id, [chunk] = rows.claimed(3)
    rows.chunks.record(chunk.claim, [entry(1), entry(2)])
    rows.chunks.fail(chunk.claim, EXPIRED, GiveUp(code=ErrorCode.PROCESS_DIED), Measured(), None)
    job = rows.jobs.claim(job_id, Step.MERGE, 3)
    rows.jobs.end(job.claim, JobState.FAILED, PipelineError(ErrorCode.LEDGER_BROKEN, "for this test"))
    assert rows.retry([job_id]) == [job_id]
    [due] = rows.take_chunks(10, Lane.CPU)
    again = rows.chunks.claim(due.chunk_id, due.attempt, device_id=DEVICE)
    assert [page.number for page in again.pages] == [3]
    rows.read(again)
    assert rows.state("job", job_id) == JobState.MERGING


def test_a_retry_of_a_rejected_job_begins_at_the_beginning(rows):
    job_id = rows.submitted()
    job = rows.jobs.claim(job_id, Step.INGEST, 1)
    rows.jobs.end(job.claim, JobState.REJECTED, PipelineError(ErrorCode.DAMAGED, "no"))
    assert rows.retry([job_id]) == [job_id]
    [due] = rows.take_jobs(1)
    assert (due.step, due.attempt) == (Step.INGEST, 3)
    with pytest.raises(StaleMove):
        rows.jobs.end(job.claim, JobState.REJECTED, PipelineError(ErrorCode.DAMAGED, "late"))


def test_a_job_that_runs_or_succeeded_is_not_retried(rows):
    job_id = rows.running(1)
    assert rows.retry([job_id]) == []


def test_devices_are_held_by_one_owner_until_their_lease_ends(rows):
    from pipeline.adapters.devices import PostgresDevices
    from pipeline.domain.states import DeviceState
    from pipeline.ports.devices import DeviceHeld, Standing

    devices = PostgresDevices(rows.engine, lease=timedelta(minutes=1))
    slot = DeviceInfo(host="here", name="cpu:0", kind="cpu", lanes=(Lane.CPU, Lane.GPU))
    devices.acquire(slot, "first")
    devices.acquire(slot, "first")
    assert rows.admissions.live_devices() == [slot]
    with pytest.raises(DeviceHeld, match="held by first"):
        devices.acquire(slot, "second")
    assert devices.renew(slot.id, "second", DeviceState.BUSY) is Standing.LOST
    devices.release(slot.id, "first")
    assert rows.admissions.live_devices() == []
    devices.acquire(slot, "second")
    rows.sql("UPDATE device SET lease_until = clock_timestamp() - interval '1 s'")
    devices.acquire(slot, "third")
