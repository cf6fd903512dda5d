"""The moves of a job over the real database."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove
from pipeline.domain.retry import Attempts
from pipeline.domain.states import JobState, Step
from pipeline.ports.jobs import StoredOriginal
from pipeline.ports.submissions import Submission
from tests.rows import BOUNDS, inspection, planned, unknown

ORIGINAL = StoredOriginal(sha256="b" * 64, size_bytes=10, media_type="image/png")


def test_a_step_is_claimed_once(rows):
    job_id = rows.submitted()
    job = rows.jobs.claim(job_id, Step.INGEST, 1)
    assert job.source_uri == "s3://archive/box-17/0001.pdf"
    assert job.source_name == "0001.pdf"
    with pytest.raises(StaleMove):
        rows.jobs.claim(job_id, Step.INGEST, 1)


@pytest.mark.parametrize(("step", "attempt"), [(Step.SPLIT, 1), (Step.MERGE, 1), (Step.INGEST, 2), (Step.INGEST, 0)])
def test_a_message_for_another_step_or_attempt_claims_nothing(rows, step, attempt):
    job_id = rows.submitted()
    with pytest.raises(StaleMove):
        rows.jobs.claim(job_id, step, attempt)


def test_a_job_that_does_not_exist_claims_nothing(rows):
    with pytest.raises(StaleMove):
        rows.jobs.claim(unknown(), Step.INGEST, 1)


def test_a_job_to_be_cancelled_claims_nothing(rows):
    job_id = rows.submitted()
    assert rows.cancel([job_id]) == [job_id]
    with pytest.raises(StaleMove):
        rows.jobs.claim(job_id, Step.INGEST, 1)


def test_ingest_leaves_the_job_planning_with_its_next_message_on_its_way(rows):
    job_id = rows.ingested()
    [job] = rows.sql("SELECT * FROM job WHERE id = :id", id=job_id)
    assert job.state == JobState.PLANNING
    assert job.lease_owner is None
    assert job.dispatched_at is not None
    assert rows.take_jobs(10) == []


def test_planning_writes_every_page_and_chunk_in_one_move(rows):
    job_id = rows.running(3, 2)
    assert rows.state("job", job_id) == JobState.RUNNING
    pages = rows.sql("SELECT number, chunk_id FROM page WHERE job_id = :id ORDER BY number", id=job_id)
    assert [page.number for page in pages] == [1, 2, 3, 4, 5]
    chunks = rows.sql("SELECT id, first_page, last_page FROM chunk WHERE job_id = :id ORDER BY ordinal", id=job_id)
    assert [(chunk.first_page, chunk.last_page) for chunk in chunks] == [(1, 3), (4, 5)]
    assert [page.chunk_id for page in pages] == [chunks[0].id] * 3 + [chunks[1].id] * 2


def test_planning_twice_gives_the_same_chunk_ids(rows):
    job_id = rows.running(2, 2)
    first = {row.id for row in rows.sql("SELECT id FROM chunk")}
    rows.sql("DELETE FROM page; DELETE FROM chunk")
    rows.sql("UPDATE job SET state = 'planning', attempt = 5, chunks_total = NULL, chunks_remaining = NULL")
    job = rows.jobs.claim(job_id, Step.SPLIT, 6)
    rows.jobs.planned(job.claim, inspection(4), planned(2, 2), is_short=False, bounds=BOUNDS)
    assert {row.id for row in rows.sql("SELECT id FROM chunk")} == first


@pytest.mark.parametrize("move", ["renew", "ingested", "end", "put_back"])
def test_a_move_by_someone_who_lost_the_claim_changes_nothing(rows, move):
    job_id = rows.submitted()
    job = rows.jobs.claim(job_id, Step.INGEST, 1)
    rows.sql("UPDATE job SET lease_owner = 'someone else' WHERE id = :id", id=job_id)
    before = rows.sql("SELECT * FROM job")
    moves = {
        "renew": lambda: rows.jobs.renew(job.claim),
        "ingested": lambda: rows.jobs.ingested(job.claim, ORIGINAL),
        "end": lambda: rows.jobs.end(job.claim, JobState.REJECTED, PipelineError(ErrorCode.DAMAGED, "no")),
        "put_back": lambda: rows.jobs.put_back(job.claim, PipelineError(ErrorCode.INTERNAL, "no"), timedelta(0)),
    }
    with pytest.raises(StaleMove):
        moves[move]()
    assert rows.sql("SELECT * FROM job") == before


def test_a_step_that_is_put_back_is_due_after_its_pause_and_counted(rows):
    job_id = rows.submitted()
    job = rows.jobs.claim(job_id, Step.INGEST, 1)
    rows.jobs.put_back(job.claim, PipelineError(ErrorCode.INTERNAL, "it broke"), timedelta(hours=1))
    assert rows.take_jobs(10) == []
    rows.sql("UPDATE job SET not_before = clock_timestamp() - interval '1 s'")
    [due] = rows.take_jobs(10)
    assert (due.job_id, due.step, due.attempt) == (job_id, Step.INGEST, 2)
    assert rows.jobs.claim(job_id, Step.INGEST, 2).attempts == Attempts(failures=1)


def test_what_the_infrastructure_did_is_not_counted_against_the_document(rows):
    job_id = rows.submitted()
    job = rows.jobs.claim(job_id, Step.INGEST, 1)
    rows.jobs.put_back(job.claim, PipelineError(ErrorCode.STORE_UNAVAILABLE, "away"), timedelta(0))
    [row] = rows.sql("SELECT failures, lost, waits FROM job")
    assert (row.failures, row.lost, row.waits) == (0, 0, 1)


def test_a_rejected_job_says_why(rows):
    job_id = rows.submitted()
    job = rows.jobs.claim(job_id, Step.INGEST, 1)
    rows.jobs.end(job.claim, JobState.REJECTED, PipelineError(ErrorCode.EMPTY_FILE, "the file is empty"))
    [status] = rows.submissions.find([job_id])
    assert (status.state, status.error_code, status.error_detail) == ("rejected", "empty_file", "the file is empty")
    assert status.finished_at is not None


def test_no_move_leaves_the_table_of_moves(rows):
    job_id = rows.submitted()
    job = rows.jobs.claim(job_id, Step.INGEST, 1)
    with pytest.raises(ValueError, match="no move from submitted to succeeded"):
        rows.jobs.end(job.claim, JobState.SUCCEEDED)


@pytest.mark.parametrize(
    "change",
    [
        "state = 'unheard_of'",
        "state = 'succeeded'",
        "state = 'rejected', finished_at = now()",
        "lease_owner = 'me'",
        "state = 'running', lease_owner = 'me', lease_until = now()",
        "priority = 101",
        "upload_key = 'uploads/1'",
        "chunks_total = 1, chunks_remaining = 2",
        "sha256 = 'abc'",
    ],
)
def test_impossible_rows_are_refused_by_the_database(rows, change):
    rows.submitted()
    with pytest.raises(IntegrityError):
        rows.sql(f"UPDATE job SET {change}")


def test_the_same_idempotency_key_gives_the_same_job(rows):
    first = rows.submitted(idempotency_key="box-17")
    assert rows.submitted(idempotency_key="box-17") == first
    assert rows.submitted(idempotency_key="box-17", tenant="other") != first
    assert rows.submitted() != rows.submitted()


def test_every_move_is_on_the_trail_with_its_actor(rows):
    job_id = rows.running(1)
    events = rows.submissions.events(job_id, limit=100)
    assert [event.kind for event in events] == ["job.submitted", "job.planning", "job.running", "chunk.ready"]
    assert {event.actor for event in events} == {"test worker/1"}
    assert events[1].detail == {"from": "submitted", "attempt": 1}


def test_a_bare_insert_is_a_whole_submission(rows):
    [row] = rows.sql("INSERT INTO job (source_uri) VALUES ('s3://archive/a%20b/c.pdf?versionId=3') RETURNING *")
    assert (row.tenant, row.source_name, row.state, row.options) == ("default", "c.pdf", "submitted", {})
    assert row.id.version == 7
    [due] = rows.take_jobs(10)
    assert due.job_id == row.id


def test_a_submission_without_a_source_is_refused_at_once(rows):
    with pytest.raises(IntegrityError, match="job_has_one_source"):
        rows.submissions.insert(Submission(source_name="nothing"))
