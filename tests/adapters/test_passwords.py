"""A password is written with its job, comes with each claim, and is gone when the job has ended, however it ends."""

import pytest
from sqlalchemy.exc import IntegrityError

from pipeline.domain.errors import ErrorCode, PipelineError, Rejected
from pipeline.domain.password import Password
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import JobState, Step

SESAME, OTHER = Password("open sesame"), Password("abracadabra")
WRONG = Rejected(ErrorCode.PASSWORD_WRONG, "it does not open it")


def kept(rows):
    return [row.password for row in rows.sql("SELECT password FROM job_secret")]


def rejected(rows, **more):
    job_id = rows.submitted(**more)
    rows.jobs.end(rows.jobs.claim(job_id, Step.INGEST, 1).claim, JobState.REJECTED, WRONG)
    return job_id


def test_whoever_claims_a_step_or_a_chunk_gets_the_password(rows):
    job_id = rows.submitted(password=SESAME)
    assert rows.jobs.claim(job_id, Step.INGEST, 1).password == SESAME
    _, [chunk] = rows.claimed(2, password=OTHER)
    assert chunk.password == OTHER


def test_whoever_looks_at_a_chunk_before_its_claim_gets_it_too(rows):
    _, [due] = rows.admitted(1, password=SESAME)
    assert rows.chunks.peek(due.chunk_id, 1).password == SESAME


def test_most_jobs_have_none(rows):
    _, [chunk] = rows.claimed(1)
    assert chunk.password is None


def test_a_second_submission_under_the_same_key_changes_nothing(rows):
    first = rows.submitted(idempotency_key="box-1", password=SESAME)
    assert rows.submitted(idempotency_key="box-1", password=OTHER) == first
    assert kept(rows) == ["open sesame"]


def test_a_job_that_was_refused_has_none_any_more(rows):
    rejected(rows, password=SESAME)
    assert kept(rows) == []


def test_a_job_that_was_cancelled_has_none_any_more(rows):
    job_id = rows.submitted(password=SESAME)
    rows.cancel([job_id])
    rows.sweeps.end_unwanted()
    assert rows.state("job", job_id) == JobState.CANCELLED
    assert kept(rows) == []


def test_a_job_that_was_delivered_has_none_any_more(rows):
    job_id, [chunk] = rows.claimed(1, password=SESAME)
    rows.read(chunk)
    for attempt, (step, move) in enumerate(
        [
            (Step.MERGE, lambda claim: rows.jobs.merged(claim, "bound")),
            (Step.EXPORT, lambda claim: rows.jobs.exported(claim, {})),
        ],
        start=3,
    ):
        assert kept(rows) == ["open sesame"]
        move(rows.jobs.claim(job_id, step, attempt).claim)
    rows.jobs.end(rows.jobs.claim(job_id, Step.DELIVER, 5).claim, JobState.SUCCEEDED)
    assert kept(rows) == []


def test_a_job_that_is_removed_takes_it_along(rows):
    job_id = rows.submitted(password=SESAME)
    rows.sql("DELETE FROM job WHERE id = :id", id=job_id)
    assert kept(rows) == []


def test_a_refused_job_is_begun_again_with_another(rows):
    job_id = rejected(rows, password=SESAME)
    assert rows.retry([job_id], password=OTHER) == [job_id]
    assert rows.jobs.claim(job_id, Step.INGEST, 3).password == OTHER


def test_failed_pages_are_read_again_with_the_password_given_again(rows):
    job_id, [chunk] = rows.claimed(2, password=SESAME)
    rows.read(chunk, outcome=PageOutcome.FAILED)
    error = PipelineError(ErrorCode.ALL_PAGES_FAILED, "each of them")
    rows.jobs.end(rows.jobs.claim(job_id, Step.MERGE, 3).claim, JobState.FAILED, error)
    assert rows.retry([job_id], password=SESAME) == [job_id]
    assert kept(rows) == ["open sesame"]


def test_a_job_that_has_ended_takes_none(rows):
    job_id = rejected(rows)
    with pytest.raises(IntegrityError, match="has ended"):
        rows.sql("INSERT INTO job_secret VALUES (:id, 'x')", id=job_id)


@pytest.mark.parametrize("value", ["", "open sesame" * 100])
def test_what_can_be_no_password_is_refused_by_the_table_without_being_shown(rows, value):
    job_id = rows.submitted()
    with pytest.raises(IntegrityError) as refusal:
        rows.sql("INSERT INTO job_secret VALUES (:id, :value)", id=job_id, value=value)
    assert "1 to 1000" in str(refusal.value)
    assert "sesame" not in f"{refusal.value}{refusal.value.orig}"
