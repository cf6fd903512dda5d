"""An engine that hangs in C, holding on to the interpreter."""

import json
from datetime import timedelta

from pipeline.domain.states import JobState
from pipeline.engines.simulated import VARIABLE
from tests.device_runs import chunk, read_all, store, supervisor
from tests.system import QUICK, scan
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


def test_a_runner_that_can_not_be_ended_sets_its_device_aside(environment, settings, monkeypatch, tmp_path):
    for name, value in {**environment, **QUICK, VARIABLE: json.dumps({"faults": {"2": "hang"}})}.items():
        monkeypatch.setenv(name, value)
    original = store(settings, scan(tmp_path, 2))
    # No time at all to go away: what else would be a process in a driver's uninterruptible sleep.
    device = supervisor(tmp_path, stall=timedelta(seconds=5), gone=timedelta(0))
    try:
        seen = read_all(device, [chunk(original, 1, 2)], lambda: 0)
        assert seen.outcomes == {"stalled": 1}
        assert device.is_sick
        eventually(lambda: device.attend() or not device.is_sick)
        assert read_all(device, [chunk(original, 1)], lambda: 0).outcomes == {"done": 1}
    finally:
        device.replace()
        eventually(lambda: is_gone(device))


def is_gone(device):
    try:
        return device._vacancy.is_reached()
    except TimeoutError:
        return False
