"""The moves of a chunk over the real database: fenced claims, the ledger, and exactly one merge."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from pipeline.domain.batches import Misfit
from pipeline.domain.document import PageClass
from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.retry import Attempts, GiveUp, ReadWith, Retry, Split
from pipeline.domain.states import AttemptOutcome, ChunkState, JobState, Step
from pipeline.ports.chunks import Hold, Measured
from tests.rows import DEVICE, entry

DIED = PipelineError(ErrorCode.PROCESS_DIED, "the runner was ended by SIGKILL")
MISFIT = Misfit(engine="simulated", revision="1", device="cuda 100", page_class=PageClass.MIXED)
MEASURED = Measured(baseline_bytes=100, peak_bytes=200)


def test_of_many_claims_of_one_message_exactly_one_wins(rows):
    _, [due] = rows.admitted(2)
    ready = threading.Barrier(6)

    def claim(number):
        ready.wait()
        try:
            return rows.as_owner(f"worker/{number}").chunks.claim(due.chunk_id, 1, device_id=DEVICE)
        except StaleMove:
            return None

    with ThreadPoolExecutor(6) as pool:
        won = [claimed for claimed in pool.map(claim, range(6)) if claimed]
    assert len(won) == 1
    assert [attempt.owner for attempt in rows.sql("SELECT owner FROM chunk_attempt")] == [won[0].claim.owner]


@pytest.mark.parametrize("attempt", [0, 2, 3])
def test_a_message_of_another_attempt_claims_nothing(rows, attempt):
    _, [due] = rows.admitted(1)
    with pytest.raises(StaleMove):
        rows.chunks.claim(due.chunk_id, attempt, device_id=DEVICE)


def test_a_chunk_that_was_not_admitted_is_not_to_be_had(rows):
    rows.running(1)
    [chunk] = rows.sql("SELECT id FROM chunk")
    with pytest.raises(StaleMove):
        rows.chunks.claim(chunk.id, 1, device_id=DEVICE)
    with pytest.raises(StaleMove):
        rows.chunks.peek(chunk.id, 1)


def test_peeking_claims_nothing(rows):
    _, [due] = rows.admitted(2)
    seen = rows.chunks.peek(due.chunk_id, 1)
    assert [page.number for page in seen.pages] == [1, 2]
    assert rows.state("chunk", due.chunk_id) == ChunkState.ADMITTED


def test_finished_pages_are_entered_once_and_the_next_attempt_gets_the_rest(rows):
    _, [chunk] = rows.claimed(3)
    assert rows.chunks.record(chunk.claim, [entry(1), entry(2)]) is Hold.GO_ON
    with pytest.raises(PipelineError, match="only 0 had no outcome yet"):
        rows.chunks.record(chunk.claim, [entry(2, segment_key="jobs/x/00001.jsonl")])
    rows.chunks.fail(chunk.claim, DIED, Retry(after=timedelta(0)), MEASURED, suspect=3)
    [again] = rows.take_chunks(10, chunk.lane)
    assert again.attempt == 2
    claimed = rows.chunks.claim(again.chunk_id, 2, device_id=DEVICE)
    assert [page.number for page in claimed.pages] == [3]
    assert claimed.attempts == Attempts(failures=1)


def test_pages_that_are_recorded_again_after_the_answer_was_lost_count_once(rows):
    _, [chunk] = rows.claimed(3)
    for _ in range(2):
        assert rows.chunks.record(chunk.claim, [entry(1), entry(2)]) is Hold.GO_ON
    assert [row.pages_done for row in rows.sql("SELECT pages_done FROM chunk_attempt")] == [2]
    with pytest.raises(PipelineError, match="only 1 had no outcome yet"):
        rows.chunks.record(chunk.claim, [entry(2), entry(3)])


def test_what_was_generated_for_pages_is_counted_with_them(rows):
    _, [chunk] = rows.claimed(4)

    def kept():
        return rows.sql("SELECT tokens FROM chunk_attempt")[0].tokens

    rows.chunks.record(chunk.claim, [entry(1)])
    assert kept() is None
    for _ in range(2):
        rows.chunks.record(chunk.claim, [replace(entry(2), tokens=700), replace(entry(3), tokens=30)])
    assert kept() == 730
    rows.chunks.record(chunk.claim, [entry(4)])
    assert kept() == 730


@pytest.mark.parametrize("options", [None, "null", '{"dpi": 300}'])
def test_another_engine_and_smaller_chunks_keep_what_a_retry_asked_for(rows, options):
    _, [chunk] = rows.claimed(2)
    rows.sql("UPDATE chunk SET options = CAST(:options AS jsonb)", options=options)
    rows.chunks.fail(chunk.claim, DIED, Split(), MEASURED, suspect=None)
    own = {"dpi": 300} if options and options != "null" else {}
    for smaller in rows.take_chunks(10, chunk.lane):
        claimed = rows.chunks.claim(smaller.chunk_id, 1, device_id=DEVICE)
        assert claimed.options == own
        rows.sql("UPDATE chunk SET options = CAST(:options AS jsonb)", options=options)
        rows.chunks.fail(claimed.claim, DIED, ReadWith(engine="other", misfit=MISFIT), MEASURED, None)
        rows.take_chunks(10, chunk.lane)
        again = rows.chunks.peek(smaller.chunk_id, 2)
        assert (again.options, again.misfit) == (own | {"engine": "other"}, MISFIT)


def test_a_chunk_does_not_finish_while_a_page_has_no_outcome(rows):
    _, [chunk] = rows.claimed(2)
    rows.chunks.record(chunk.claim, [entry(1)])
    with pytest.raises(PipelineError, match="without an outcome for pages \\[2\\]"):
        rows.chunks.finish(chunk.claim, MEASURED)
    assert rows.state("chunk", chunk.claim.chunk_id) == ChunkState.RUNNING


def test_a_stale_finisher_changes_nothing(rows):
    job_id, [chunk] = rows.claimed(1)
    rows.chunks.record(chunk.claim, [entry(1)])
    rows.sql("UPDATE chunk SET attempt = 2, lease_owner = 'the next one' WHERE id = :id", id=chunk.claim.chunk_id)
    for move in (
        lambda: rows.chunks.renew(chunk.claim),
        lambda: rows.chunks.look(chunk.claim),
        lambda: rows.chunks.record(chunk.claim, [entry(1)]),
        lambda: rows.chunks.finish(chunk.claim, MEASURED),
        lambda: rows.chunks.fail(chunk.claim, DIED, GiveUp(code=DIED.code), MEASURED, None),
        lambda: rows.chunks.hand_back(chunk.claim, AttemptOutcome.DRAINED, MEASURED),
    ):
        with pytest.raises(StaleMove):
            move()
    [job] = rows.sql("SELECT state, chunks_remaining FROM job WHERE id = :id", id=job_id)
    assert (job.state, job.chunks_remaining) == (JobState.RUNNING, 1)


def test_exactly_one_merge_is_due_however_often_chunks_are_finished(rows):
    job_id, chunks = rows.claimed(*[1] * 20)
    for chunk in chunks:
        rows.chunks.record(chunk.claim, [entry(page.number) for page in chunk.pages])

    def finish(chunk):
        try:
            rows.chunks.finish(chunk.claim, MEASURED)
        except StaleMove:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        finished = sum(pool.map(finish, [*chunks, *reversed(chunks)]))
    assert finished == 20
    assert rows.sql("SELECT count(*) FROM event WHERE kind = 'job.merging'")[0].count == 1
    [due] = rows.take_jobs(10)
    assert (due.job_id, due.step) == (job_id, Step.MERGE)


def test_a_chunk_given_up_fails_its_unfinished_pages_and_counts_as_ended(rows):
    job_id, [chunk] = rows.claimed(3)
    rows.chunks.record(chunk.claim, [entry(1)])
    rows.chunks.fail(chunk.claim, DIED, GiveUp(code=ErrorCode.PROCESS_DIED), MEASURED, suspect=2)
    assert rows.state("chunk", chunk.claim.chunk_id) == ChunkState.DEAD
    assert rows.state("job", job_id) == JobState.MERGING
    assert rows.ledger.outcomes(job_id) == {PageOutcome.RECOGNISED: 1, PageOutcome.FAILED: 2}
    causes = [page.error_code for page in rows.ledger.pages(job_id)]
    assert causes == [None, "process_died", "process_died"]


def test_a_split_sets_the_suspect_apart_and_counts_every_part(rows):
    job_id, chunks = rows.claimed(5, 1)
    poisoned = chunks[0]
    rows.chunks.record(poisoned.claim, [entry(1)])
    rows.chunks.fail(poisoned.claim, DIED, Split(), MEASURED, suspect=3)
    parts = rows.sql("SELECT first_page, last_page FROM chunk WHERE state = 'ready' ORDER BY ordinal")
    assert [tuple(part) for part in parts] == [(2, 2), (3, 3), (4, 5)]
    [job] = rows.sql("SELECT chunks_total, chunks_remaining FROM job WHERE id = :id", id=job_id)
    assert tuple(job) == (5, 4)
    for due in rows.take_chunks(10, poisoned.lane):
        rows.read(rows.chunks.claim(due.chunk_id, 1, device_id=DEVICE))
    rows.read(chunks[1])
    assert rows.state("job", job_id) == JobState.MERGING
    assert rows.ledger.outcomes(job_id) == {PageOutcome.RECOGNISED: 6}


def test_a_drained_chunk_is_due_again_and_nothing_is_counted_against_it(rows):
    _, [chunk] = rows.claimed(2)
    rows.chunks.record(chunk.claim, [entry(1)])
    rows.chunks.hand_back(chunk.claim, AttemptOutcome.DRAINED, MEASURED)
    [due] = rows.take_chunks(10, chunk.lane)
    again = rows.chunks.claim(due.chunk_id, 2, device_id=DEVICE)
    assert ([page.number for page in again.pages], again.attempts) == ([2], Attempts())


def test_who_holds_a_chunk_hears_of_a_cancel_and_the_job_ends_without_a_merge(rows):
    job_id, [first, _] = rows.claimed(2, 2)
    rows.cancel([job_id])
    assert rows.chunks.look(first.claim) is Hold.CANCEL
    assert rows.chunks.renew(first.claim) is Hold.CANCEL
    assert rows.chunks.record(first.claim, [entry(1)]) is Hold.CANCEL
    assert rows.sweeps.end_unwanted() == []
    assert rows.state("job", job_id) == JobState.RUNNING
    for chunk in (first, _):
        rows.chunks.hand_back(chunk.claim, AttemptOutcome.CANCELLED, MEASURED)
    assert rows.sweeps.end_unwanted() == [job_id]
    assert rows.state("job", job_id) == JobState.CANCELLED
    assert rows.ledger.outcomes(job_id) == {PageOutcome.RECOGNISED: 1}


def test_an_attempt_says_who_where_when_and_what_it_took(rows):
    _, [chunk] = rows.claimed(2)
    rows.chunks.record(chunk.claim, [entry(1), entry(2)])
    rows.chunks.finish(chunk.claim, MEASURED)
    [attempt] = rows.sql("SELECT * FROM chunk_attempt")
    assert (attempt.owner, attempt.device_id, attempt.outcome, attempt.pages_done) == ("worker/1", DEVICE, "done", 2)
    assert (attempt.baseline_bytes, attempt.peak_bytes) == (100, 200)
    assert attempt.ended_at >= attempt.started_at


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chunk SET state = 'running', lease_owner = NULL, lease_until = NULL",
        "UPDATE chunk SET lease_owner = 'me', lease_until = now() WHERE state = 'ready'",
        "UPDATE chunk SET state = 'dead', lease_owner = NULL, lease_until = NULL",
        "UPDATE chunk SET first_page = 2, last_page = 1",
        "UPDATE chunk SET lane = 'tpu'",
        "UPDATE page SET outcome = 'recognised'",
        "UPDATE page SET outcome = 'failed'",
        "UPDATE page SET error_code = 'damaged'",
        "UPDATE page SET segment_key = 'k'",
        "UPDATE page SET confidence = 1.5",
        "INSERT INTO page (job_id, number, class) SELECT id, 0, 'scan' FROM job",
        "INSERT INTO page (job_id, number, class) SELECT id, 1, 'scan' FROM job",
    ],
)
def test_impossible_rows_are_refused_by_the_database(rows, change):
    rows.running(2)
    with pytest.raises(IntegrityError):
        rows.sql(change)
