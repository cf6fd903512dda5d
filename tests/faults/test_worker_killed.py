"""kill -9 of a worker of a device: of the whole, and of the process of its pool alone."""

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually


def test_a_worker_killed_in_the_middle_is_made_up_for(system, tmp_path):
    system.simulate(page_ms=60)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 50))
    system.pages_done(job_id, 10)
    system.kill("cpu0")
    system.spawn_slot(0)
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 50)
    # Nothing outlives a worker that was killed.
    eventually(lambda: len(system.runner_pids()) == 2)


def test_the_process_of_a_pool_that_is_killed_is_made_up_for(system, tmp_path):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 20))
    system.in_work()
    parent, child = system.processes["cpu0"], system.child("cpu0")
    child.kill()
    gate.touch()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 20)
    assert sorted(system.attempts()) == [("done", None)] * 4 + [("lost", "lease_expired")]
    assert parent.poll() is None
    assert system.child("cpu0").pid != child.pid
