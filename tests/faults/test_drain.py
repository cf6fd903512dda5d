"""SIGTERM: a worker stops at its next page."""

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually


def test_a_worker_asked_to_stop_does_so_at_a_page_border_and_nothing_is_counted(system, tmp_path):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 20))
    system.in_work()
    process = system.processes.pop("cpu0")
    process.terminate()
    eventually(lambda: "runner_asked_to_stop" in system.log("cpu0"))
    gate.touch()
    assert process.wait(60) == 0
    [drained] = system.rows.sql("SELECT pages_done FROM chunk_attempt WHERE outcome = 'drained'")
    assert drained.pages_done < 5
    system.spawn_slot(0)
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 20)
    assert [tuple(row) for row in system.rows.sql("SELECT DISTINCT failures, lost FROM chunk")] == [(0, 0)]
    assert system.rows.sql("SELECT sum(pages_done) AS pages FROM chunk_attempt")[0].pages == 20
