"""The process that holds the engine is killed in the middle of a page, as the kernel does when memory runs out."""

from pipeline.domain.states import JobState
from tests.system import scan


def test_a_runner_killed_in_the_middle_costs_one_attempt_and_no_finished_page(system, tmp_path):
    system.simulate(faults={"9": "kill_once"}, folder=str(tmp_path))
    system.start()
    job_id = system.submit(scan(tmp_path, 15))
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 15)
    attempts = system.rows.sql("SELECT outcome, error_code, pages_done FROM chunk_attempt ORDER BY started_at")
    assert [(row.outcome, row.error_code) for row in attempts if row.outcome != "done"] == [("failed", "process_died")]
    assert sum(row.pages_done for row in attempts) == 15
