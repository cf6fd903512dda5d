"""What people ask of jobs, as commands and as plain updates of rows, over the real database."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.domain.document import Lane
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected, StaleMove
from pipeline.domain.retry import GiveUp
from pipeline.domain.states import AttemptOutcome, ChunkState, JobState, Step
from pipeline.ports.chunks import Hold, Measured
from pipeline.ports.control import Change, Target
from pipeline.ports.dispatch import Patience
from pipeline.ports.jobs import QueueBounds
from tests.rows import BOUNDS, DEVICE, entry, inspection, planned

DIED = PipelineError(ErrorCode.PROCESS_DIED, "killed")
PATIENCE = Patience(longest_job=timedelta(days=365), longest_wait=timedelta(days=30))

IN_TWO_HOURS = """
    to_char(now() AT TIME ZONE 'UTC' + interval '2 h', 'HH24:MI') || '-' ||
    to_char(now() AT TIME ZONE 'UTC' + interval '3 h', 'HH24:MI')
"""
HOLDS = {
    "job": ("UPDATE job SET paused = true", "UPDATE job SET paused = false"),
    "batch": ("UPDATE batch SET paused = true", "UPDATE batch SET paused = false"),
    "tenant": ("UPDATE tenant SET paused = true", "UPDATE tenant SET paused = false"),
    "hours": (f"UPDATE job SET hours = {IN_TWO_HOURS}", "UPDATE job SET hours = NULL"),
}


def kinds(rows, job_id):
    return [event.kind for event in rows.submissions.events(job_id, 100)]


# --- waiting


@pytest.mark.parametrize("whom", HOLDS)
def test_a_running_chunk_is_told_to_stop_and_is_due_again_when_its_job_may_go_on(rows, whom):
    hold, release = HOLDS[whom]
    _, [chunk] = rows.claimed(3, label="box-17")
    assert rows.chunks.record(chunk.claim, [entry(1)]) is Hold.GO_ON
    rows.sql(hold)
    assert rows.chunks.look(chunk.claim) is rows.chunks.renew(chunk.claim) is Hold.PAUSE
    rows.chunks.hand_back(chunk.claim, AttemptOutcome.PAUSED, Measured())
    assert rows.take_chunks(10) == []
    rows.sql(release)
    [due] = rows.take_chunks(10)
    again = rows.chunks.claim(due.chunk_id, due.attempt, device_id=DEVICE)
    assert [page.number for page in again.pages] == [2, 3]
    assert again.attempts.failures == again.attempts.lost == 0


@pytest.mark.parametrize("whom", HOLDS)
def test_what_was_sent_and_not_taken_is_taken_back_and_can_not_be_claimed(rows, whom):
    hold, release = HOLDS[whom]
    _, [due] = rows.admitted(1, label="box-17")
    step = rows.submitted(label="box-17")
    assert len(rows.take_jobs(10)) == 1
    rows.sql(hold)
    with pytest.raises(StaleMove):
        rows.chunks.claim(due.chunk_id, due.attempt, device_id=DEVICE)
    with pytest.raises(StaleMove):
        rows.jobs.claim(step, Step.INGEST, 1)
    assert rows.sweeps.recall_held() == 2
    assert rows.sweeps.recall_held() == 0
    assert rows.take_chunks(10) == rows.take_jobs(10) == []
    rows.sql(release)
    assert [taken.chunk_id for taken in rows.take_chunks(10)] == [due.chunk_id]
    assert [taken.job_id for taken in rows.take_jobs(10)] == [step]


def test_hours_begin_and_end_by_the_clock_of_the_database(rows):
    jobs = [rows.running(1, hours="00:00-00:00") for _ in range(3)]
    assert rows.sweeps.turn_hours() == 0
    # As if the clock had gone on: what the rows say is no longer what the hours say.
    rows.sql("UPDATE job SET off_hours = true WHERE id <> :id", id=jobs[0])
    assert len(rows.take_chunks(10)) == 1
    assert rows.sweeps.turn_hours() == 2
    assert len(rows.take_chunks(10)) == 2


@pytest.mark.parametrize("hours", ["8-17", "20:00-06:00 Nowhere", "20:00_06:00", "25:00-06:00"])
@pytest.mark.parametrize("label", ["box-17", None])
def test_hours_that_can_not_be_read_are_refused(rows, hours, label):
    job_id = rows.submitted(label=label)
    target = Target(label=label) if label else Target(job_ids=(job_id,))
    with pytest.raises(Rejected, match="hours look like"):
        rows.control.change(target, Change(hours=hours))


# --- changing


def test_a_batch_a_tenant_or_single_jobs_are_changed_and_nobody_else(rows):
    inside, outside = rows.submitted(label="box-17"), rows.submitted()
    foreign = rows.submitted(label="box-17", tenant="museum")
    deadline = datetime(2999, 1, 1, tzinfo=UTC)
    assert rows.control.change(Target(label="box-17"), Change(priority=4, deadline=deadline)) == [inside]
    assert rows.control.change(Target(tenant="museum"), Change(paused=True)) == [foreign]
    assert rows.control.change(Target(job_ids=(outside,)), Change(hours="01:00-02:00")) == [outside]
    statuses = rows.submissions.find([inside, outside, foreign])
    assert [(s.priority, s.deadline, s.hours) for s in statuses] == [
        (4, deadline, None),
        (0, None, "01:00-02:00"),
        (0, None, None),
    ]
    later = rows.submitted(label="box-17")
    assert rows.submissions.find([later])[0].priority == 4
    assert [due.job_id for due in rows.take_jobs(10)][:2] == [inside, later]
    rows.control.change(Target(tenant="museum"), Change(paused=False))
    assert [due.job_id for due in rows.take_jobs(10)] == [foreign]


def test_every_change_is_on_the_trail_with_who_made_it(rows):
    job_id = rows.submitted()
    rows.control.change(Target(job_ids=(job_id,)), Change(paused=True, priority=3))
    rows.control.change(Target(job_ids=(job_id,)), Change(paused=True))
    rows.control.cancel(Target(job_ids=(job_id,)))
    trail = [(event.kind, event.detail) for event in rows.submissions.events(job_id, 10) if "control" in event.kind]
    assert trail == [
        ("job.control", {"paused": True, "priority": 3}),
        ("job.control", {"cancel_requested": True}),
    ]
    assert {event.actor for event in rows.submissions.events(job_id, 10)} == {"test worker/1"}


# --- ending


@pytest.mark.parametrize("whom", [{"label": "box-17"}, {"tenant": "museum"}])
def test_a_batch_or_all_of_a_tenant_can_be_cancelled(rows, whom):
    concerned = [rows.running(2, tenant="museum", label="box-17"), rows.submitted(tenant="museum", label="box-17")]
    other = rows.submitted(label="box-17")
    assert set(rows.control.cancel(Target(**{"tenant": "museum"} | whom))) == set(concerned)
    assert set(rows.sweeps.end_unwanted()) == set(concerned)
    assert rows.state("job", other) == JobState.SUBMITTED


def test_a_deadline_stops_a_running_chunk_and_its_job_ends_with_that_cause(rows):
    job_id, [chunk] = rows.claimed(2)
    rows.sql("UPDATE job SET deadline = clock_timestamp() - interval '1 s'")
    assert rows.chunks.look(chunk.claim) is Hold.CANCEL
    assert rows.sweeps.end_unwanted() == []
    rows.chunks.hand_back(chunk.claim, AttemptOutcome.CANCELLED, Measured())
    assert rows.sweeps.end_unwanted() == [job_id]
    [status] = rows.submissions.find([job_id])
    assert (status.state, status.error_code) == (JobState.FAILED, "deadline_passed")
    assert "job.merging" not in kinds(rows, job_id)


# --- bounds


def test_a_job_that_the_queue_has_no_room_for_is_refused_and_nothing_of_it_is_written(rows):
    rows.running(3)
    job_id = rows.ingested()
    job = rows.jobs.claim(job_id, Step.SPLIT, 2)
    with pytest.raises(Rejected, match="4 pages waiting") as refused:
        rows.jobs.planned(
            job.claim, inspection(2), planned(2), is_short=True, bounds=QueueBounds(per_tenant=4, in_all=99)
        )
    assert refused.value.code is ErrorCode.QUEUE_FULL
    assert rows.sql("SELECT count(*) FROM page WHERE job_id = :id", id=job_id)[0].count == 0
    with pytest.raises(Rejected, match="4 pages may wait in all"):
        rows.jobs.planned(
            job.claim, inspection(2), planned(2), is_short=True, bounds=QueueBounds(per_tenant=99, in_all=4)
        )
    rows.jobs.planned(job.claim, inspection(2), planned(2), is_short=True, bounds=QueueBounds(per_tenant=5, in_all=5))


def test_a_full_queue_refuses_before_anything_is_fetched_and_the_tenants_row_decides(rows):
    rows.running(3)
    job = rows.jobs.claim(rows.submitted(), Step.INGEST, 1)
    rows.jobs.check_room(job.claim, BOUNDS)
    with pytest.raises(Rejected, match="3 pages waiting"):
        rows.jobs.check_room(job.claim, QueueBounds(per_tenant=3, in_all=99))
    rows.control.set_tenant("default", weight=None, max_queued_pages=3)
    with pytest.raises(Rejected, match="3 pages waiting"):
        rows.jobs.check_room(job.claim, BOUNDS)
    rows.control.set_tenant("default", weight=None, max_queued_pages=4)
    rows.jobs.check_room(job.claim, QueueBounds(per_tenant=3, in_all=99))
    [tenant] = rows.control.tenants()
    assert (tenant.name, tenant.open_jobs, tenant.queued_pages, tenant.max_queued_pages) == ("default", 2, 3, 4)


# --- nothing waits for ever


def test_an_audit_walks_all_open_jobs_and_finds_nothing_in_healthy_ones(rows):
    rows.claimed(1)
    rows.admitted(2)
    rows.running(2)
    for _ in range(250):
        rows.submitted()
    cursor, stuck = rows.sweeps.audit(None, PATIENCE)
    assert cursor is not None
    assert rows.sweeps.audit(cursor, PATIENCE) == (None, [])
    assert stuck == []


def test_a_job_that_lasts_too_long_ends_as_if_it_had_had_that_deadline(rows):
    job_id, other = rows.running(1), rows.running(1)
    rows.sql("UPDATE job SET begun_at = now() - interval '366 d' WHERE id = :id", id=job_id)
    assert rows.sweeps.audit(None, PATIENCE) == (None, [job_id])
    assert rows.sweeps.end_unwanted() == [job_id]
    [status] = rows.submissions.find([job_id])
    assert (status.state, status.error_code) == (JobState.FAILED, "deadline_passed")
    assert rows.state("job", other) == JobState.RUNNING


def test_a_running_job_whose_chunks_are_gone_is_bound_so_that_it_ends(rows):
    job_id = rows.running(2, 2)
    rows.sql("DELETE FROM chunk")
    assert rows.sweeps.audit(None, PATIENCE) == (None, [job_id])
    assert rows.state("job", job_id) == JobState.MERGING


def long_ago(rows):
    rows.sql("ALTER TABLE job DISABLE TRIGGER job_touch; ALTER TABLE chunk DISABLE TRIGGER chunk_touch")
    rows.sql("UPDATE job SET updated_at = now() - interval '31 d'")
    rows.sql("UPDATE chunk SET updated_at = now() - interval '31 d'")


def test_what_nobody_takes_is_given_up_with_that_cause_and_the_rest_is_bound(rows):
    step = rows.submitted()
    job_id, [done, _] = rows.claimed(2, 1)
    rows.read(done)
    rows.sql("UPDATE chunk SET state = 'ready', lease_owner = NULL, lease_until = NULL WHERE ordinal = 1")
    long_ago(rows)
    _, stuck = rows.sweeps.audit(None, PATIENCE)
    assert set(stuck) == {step, job_id}
    [status] = rows.submissions.find([step])
    assert (status.state, status.error_code) == (JobState.FAILED, "no_progress")
    assert rows.state("job", job_id) == JobState.MERGING
    assert [page.error_code for page in rows.ledger.pages(job_id)] == [None, None, "no_progress"]


@pytest.mark.parametrize("whom", HOLDS)
def test_what_is_held_may_wait_longer(rows, whom):
    rows.running(2, label="box-17")
    rows.submitted(label="box-17")
    rows.sql(HOLDS[whom][0])
    long_ago(rows)
    assert rows.sweeps.audit(None, PATIENCE) == (None, [])


# --- beginning again


def ended(rows, *sizes, dead=()):
    """Return a job whose chunks are done, or dead for those ordinals, and which has ended."""
    job_id, chunks = rows.claimed(*sizes)
    for ordinal, chunk in enumerate(chunks):
        if ordinal in dead:
            rows.chunks.fail(chunk.claim, DIED, GiveUp(code=DIED.code), Measured(), None)
        else:
            rows.read(chunk)
    job = rows.jobs.claim(job_id, Step.MERGE, 3)
    rows.jobs.end(job.claim, JobState.FAILED, PipelineError(ErrorCode.LEDGER_BROKEN, "for this test"))
    return job_id


def pages_again(rows):
    return [
        [page.number for page in rows.chunks.claim(due.chunk_id, due.attempt, device_id=DEVICE).pages]
        for due in rows.take_chunks(10)
    ]


def test_only_what_failed_is_done_again(rows):
    job_id = ended(rows, 2, 2, 2, dead=(1,))
    assert rows.retry([job_id]) == [job_id]
    assert pages_again(rows) == [[3, 4]]
    assert rows.sql("SELECT count(*) FROM chunk WHERE options IS NOT NULL")[0].count == 0


def test_a_dead_chunk_is_done_again_by_itself_with_other_options(rows):
    job_id = ended(rows, 2, 2, 2, dead=(0, 2))
    [third] = rows.sql("SELECT id FROM chunk WHERE ordinal = 2")
    assert rows.control.job_of(third.id) == job_id
    assert rows.retry([job_id], chunk_ids=(third.id,), options={"dpi": 400}) == [job_id]
    [due] = rows.take_chunks(10)
    again = rows.chunks.claim(due.chunk_id, due.attempt, device_id=DEVICE)
    assert ([page.number for page in again.pages], again.options["dpi"]) == ([5, 6], 400)
    rows.read(again)
    assert rows.state("job", job_id) == JobState.MERGING
    assert rows.sql("SELECT options FROM job")[0].options == {}
    assert [page.error_code for page in rows.ledger.pages(job_id)] == ["process_died"] * 2 + [None] * 4


def test_all_of_a_job_that_succeeded_can_be_done_again_with_another_engine(rows):
    job_id = ended(rows, 2)
    rows.sql("UPDATE job SET state = 'succeeded', error_code = NULL")
    assert rows.retry([job_id]) == []
    assert rows.retry([job_id], from_the_beginning=True, options={"engine": "rapidocr"}) == [job_id]
    [status] = rows.submissions.find([job_id])
    assert (status.state, status.pages_done) == (JobState.SUBMITTED, 0)
    assert rows.sql("SELECT options FROM job")[0].options == {"engine": "rapidocr"}
    assert rows.control.tenants()[0].queued_pages == 0


def test_a_job_that_lacks_no_page_is_bound_again_and_none_is_read_again(rows):
    job_id = ended(rows, 2, 1)
    assert rows.retry([job_id]) == [job_id]
    assert rows.take_chunks(10) == []
    [due] = rows.take_jobs(10)
    assert (due.job_id, due.step) == (job_id, Step.MERGE)
    rows.jobs.claim(job_id, due.step, due.attempt)


def test_a_chunk_that_lacks_no_page_is_not_begun_again(rows):
    job_id = ended(rows, 2, 2, dead=(1,))
    [done] = rows.sql("SELECT id FROM chunk WHERE ordinal = 0")
    assert rows.retry([job_id], chunk_ids=(done.id,)) == []
    assert rows.state("job", job_id) == JobState.FAILED


def test_a_retry_may_last_as_long_as_a_new_job(rows):
    job_id = ended(rows, 1, dead=(0,))
    rows.sql("UPDATE job SET begun_at = now() - interval '366 d', created_at = now() - interval '366 d'")
    assert rows.retry([job_id]) == [job_id]
    assert rows.sweeps.audit(None, PATIENCE) == (None, [])


def test_options_that_a_job_can_not_have_are_refused_and_it_stays_as_it_was(rows):
    job_id = ended(rows, 1, dead=(0,))
    with pytest.raises(Rejected, match="dpi must be"):
        rows.retry([job_id], options={"dpi": 7})
    assert rows.state("job", job_id) == JobState.FAILED
    assert rows.state("chunk", rows.sql("SELECT id FROM chunk")[0].id) == ChunkState.DEAD


def test_other_pages_are_asked_for_from_the_beginning_only(rows):
    job_id = ended(rows, 2, 1, dead=(1,))
    with pytest.raises(Rejected, match="ask for all pages again"):
        rows.retry([job_id], options={"pages": "1"})
    assert rows.retry([job_id], options={"pages": "1"}, from_the_beginning=True) == [job_id]
    assert rows.submissions.find([job_id])[0].options == {"pages": "1"}


def test_lanes_stay_as_they_were_planned(rows):
    job_id, chunks = rows.claimed(1, lane=Lane.GPU)
    rows.chunks.fail(chunks[0].claim, DIED, GiveUp(code=DIED.code), Measured(), None)
    job = rows.jobs.claim(job_id, Step.MERGE, 3)
    rows.jobs.end(job.claim, JobState.FAILED, DIED)
    # No page has a result: it begins at the beginning, and is planned anew.
    assert rows.retry([job_id]) == [job_id]
    assert rows.sql("SELECT lane, is_short FROM job") == [(None, False)]
