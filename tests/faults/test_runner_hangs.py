"""An engine that hangs in C, holding on to the interpreter."""

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually


def test_a_runner_that_hangs_is_killed_and_the_page_set_apart(system, tmp_path):
    system.environment["MUNIMENT_LEASES__STALL"] = "PT3S"
    system.simulate(faults={"2": "hang"})
    system.start()
    job_id = system.submit(scan(tmp_path, 4))
    assert system.finished(job_id).outcomes == {"recognised": 3, "failed": 1}
    failed = [(page.number, page.error_code) for page in system.rows.ledger.pages(job_id) if page.error_code]
    assert failed == [(2, "stalled")]
    system.assert_whole(job_id, 4)


def test_a_runner_that_stands_still_is_killed_and_nothing_is_lost(system, tmp_path):
    gate = tmp_path / "gate"
    system.environment["MUNIMENT_LEASES__STALL"] = "PT3S"
    system.simulate(gate=str(gate))
    system.start()
    job_id = system.submit(scan(tmp_path, 5))
    system.in_work()
    system.runner("cpu0").suspend()
    eventually(lambda: ("failed", "stalled") in system.attempts())
    gate.touch()
    status = system.finished(job_id)
    assert (status.state, status.outcomes) == (JobState.SUCCEEDED, {"recognised": 5})
    system.assert_whole(job_id, 5)
