"""F10: a model that takes longer to load than Celery gives a new child, in runners that replace each other."""

from pipeline.domain.states import JobState
from tests.system import scan


def test_runners_that_load_slowly_replace_each_other_and_no_worker_is_given_up(system, tmp_path):
    system.environment["MUNIMENT_DEVICES__BASELINE_TOLERANCE_BYTES"] = "0"
    system.simulate(warm_up_ms=6000)
    system.start()
    worker = system.processes["cpu0"]
    job_id = system.submit(scan(tmp_path, 15))
    assert system.finished(job_id, within=200).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 15)
    log = system.log("cpu0")
    assert log.count("runner_outgrown") == 3
    assert "Timed out waiting for UP" not in log
    assert worker.poll() is None
    assert system.rows.sql("SELECT 1 FROM chunk_attempt WHERE outcome <> 'done'") == []
