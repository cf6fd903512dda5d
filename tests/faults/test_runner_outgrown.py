"""An engine that leaks: its process grows over its bound."""

from pipeline.domain.states import JobState
from tests.system import scan


def test_a_runner_that_outgrows_its_bound_is_replaced_between_chunks(system, tmp_path):
    system.environment["MUNIMENT_DEVICES__MAX_RUNNER_BYTES"] = "1"
    system.start()
    job_id = system.submit(scan(tmp_path, 10))
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 10)
    assert system.log("cpu0").count("runner_outgrown") == 2
    assert system.rows.sql("SELECT 1 FROM chunk_attempt WHERE outcome <> 'done'") == []
