"""The verdict over real rows: clean where all is well, and each thing that must not be is found once it is made so."""

import pytest

from pipeline.adapters.evidence import PostgresEvidence
from pipeline.chaos.documents import expected_text
from pipeline.chaos.schedule import Document, PageKind
from pipeline.chaos.verdict import Reading, ResultPage, judge
from pipeline.domain.document import Lane
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import JobState, Step
from pipeline.ports.evidence import RowEvidence

SCAN = PageKind.SCAN
THREE = Document(name="three.pdf", pages=(SCAN, SCAN, SCAN), lane=Lane.CPU)


def result(*numbers, text=None):
    return [
        ResultPage(number=number, outcome=PageOutcome.RECOGNISED, text=text or expected_text(SCAN, number))
        for number in numbers
    ]


class Ended:
    """A document of three pages in two chunks that has ended as it should."""

    def __init__(self, rows):
        self.rows = rows
        self.job_id, chunks = rows.claimed(2, 1, source_name="three.pdf")
        for chunk in chunks:
            rows.read(chunk)
        # One device has one chunk at a time.
        rows.sql(
            "UPDATE chunk_attempt SET started_at = now() - interval '1 h', ended_at = now() - interval '50 min'"
            " WHERE chunk_id = :id",
            id=chunks[0].claim.chunk_id,
        )
        merge, export, deliver = (Step.MERGE, 3), (Step.EXPORT, 4), (Step.DELIVER, 5)
        rows.jobs.merged(rows.jobs.claim(self.job_id, *merge).claim, "jobs/x/document.jsonl")
        rows.jobs.exported(rows.jobs.claim(self.job_id, *export).claim, {"json": "jobs/x/document.json"})
        rows.jobs.end(rows.jobs.claim(self.job_id, *deliver).claim, JobState.SUCCEEDED)
        self.chunk_id = chunks[0].claim.chunk_id

    def judged(self, *, pages=None, documents=(THREE,), readings=()):
        results = {self.job_id: result(1, 2, 3) if pages is None else pages}
        return judge(documents, PostgresEvidence(self.rows.engine).rows(), results, readings=readings)


@pytest.fixture
def ended(rows):
    return Ended(rows)


def test_nothing_is_found_where_nothing_is_wrong(ended):
    assert ended.judged(readings=[Reading(device="cpu:0", pid=pid) for pid in (7, 7, 8)]).is_clean


def test_a_page_without_an_outcome_is_lost(ended):
    ended.rows.sql("UPDATE page SET outcome = NULL, segment_key = NULL, attempt = NULL WHERE number = 2")
    ended.rows.sql("UPDATE chunk_attempt SET pages_done = 1")
    verdict = ended.judged()
    assert [finding[:16] for finding in verdict.lost] == ["three.pdf page 2"]
    assert not verdict.doubled


def test_a_page_that_failed_without_reason_is_lost(ended):
    ended.rows.sql("UPDATE page SET outcome = 'failed', error_code = 'process_died' WHERE number = 2")
    assert ended.judged().lost == ("three.pdf page 2 (scan): ended as failed (process_died)",)


def test_a_page_that_is_missing_in_the_result_or_has_another_text_is_lost(ended):
    [missing] = ended.judged(pages=result(1, 3)).lost
    assert missing.startswith("three.pdf page 2 (scan): not in the result")
    swapped = ended.judged(pages=[*result(1, 3), *result(2, text="page 1")]).lost
    assert [finding[:16] for finding in swapped] == ["three.pdf page 2"]


def test_a_document_without_a_job_is_lost_page_by_page(ended):
    other = Document(name="other.pdf", pages=(SCAN, SCAN), lane=Lane.CPU)
    assert len(ended.judged(documents=(THREE, other)).lost) == 2


def test_a_file_that_is_no_document_must_be_rejected(ended):
    none = Document(name="three.pdf", pages=(), lane=Lane.CPU)
    assert ended.judged(documents=(none,), pages=[]).lost == (
        "three.pdf is no document and was not rejected: succeeded",
    )


def test_a_page_that_is_twice_in_the_result_is_doubled(ended):
    assert [finding[:16] for finding in ended.judged(pages=result(1, 2, 2, 3)).doubled] == ["three.pdf page 2"]


def test_a_page_that_was_entered_twice_is_doubled(ended):
    ended.rows.sql("UPDATE chunk_attempt SET pages_done = pages_done + 1 WHERE chunk_id = :id", id=ended.chunk_id)
    assert len(ended.judged().doubled) == 1


def test_a_document_with_two_jobs_is_doubled_page_by_page(ended):
    ended.rows.submitted(source_name="three.pdf")
    verdict = ended.judged()
    assert len(verdict.doubled) == 3
    assert len(verdict.stuck) == 1


def test_a_job_that_was_merged_twice_is_found(ended):
    ended.rows.sql("INSERT INTO event (job_id, actor, kind) VALUES (:id, 'test', 'job.merging')", id=ended.job_id)
    assert ended.judged().doubled == ("three.pdf: was merged 2 times",)


def test_rows_that_have_not_ended_are_stuck(ended):
    ended.rows.sql("UPDATE job SET state = 'delivering', finished_at = NULL")
    ended.rows.sql("UPDATE chunk SET state = 'admitted' WHERE id = :id", id=ended.chunk_id)
    ended.rows.sql("UPDATE chunk_attempt SET outcome = NULL, ended_at = NULL WHERE chunk_id = :id", id=ended.chunk_id)
    stuck = ended.judged().stuck
    assert [finding.split()[0] for finding in stuck] == ["job", "chunk", "attempt"]


def test_a_device_that_claims_a_chunk_while_it_has_another_one_overlaps(ended):
    ended.rows.sql("UPDATE chunk_attempt SET ended_at = now() + interval '1 h' WHERE chunk_id = :id", id=ended.chunk_id)
    assert len(ended.judged().overlaps) == 1
    # Of an attempt that was lost it is only known when it was taken back.
    ended.rows.sql("UPDATE chunk_attempt SET outcome = 'lost' WHERE chunk_id = :id", id=ended.chunk_id)
    assert not ended.judged().overlaps


def test_a_process_that_reads_on_after_its_successor_has_begun_overlaps(ended):
    readings = [Reading(device="cpu:0", pid=pid) for pid in (7, 7, 8, 7)]
    assert len(ended.judged(readings=readings).overlaps) == 1
    apart = [Reading(device=f"cpu:{pid % 2}", pid=pid) for pid in (7, 8, 7, 8)]
    assert not ended.judged(readings=apart).overlaps


def test_a_process_that_does_not_come_back_is_stuck():
    assert judge([], RowEvidence(), {}, absent=["the launcher was not there"]).stuck == ("the launcher was not there",)
