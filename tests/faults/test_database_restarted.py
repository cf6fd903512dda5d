"""Postgres stops while chunks are in work, in order or not, and comes back with what was committed."""

import pytest

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually


@pytest.fixture
def database_url(own_database):
    return own_database.url


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_database_that_comes_back_costs_no_attempt(system, own_database, tmp_path, how):
    gate = tmp_path / "gate"
    # Devices try to record for as long as their lease holds.
    system.environment["MUNIMENT_LEASES__CHUNK"] = "PT60S"
    system.simulate(gate=str(gate))
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 30))
    system.in_work(2)
    getattr(own_database, how)()
    gate.touch()
    own_database.start()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 30)
    assert set(system.attempts()) == {("done", None)}


def test_the_process_of_a_pool_that_begins_while_the_database_is_away_serves_its_device_later(
    system, own_database, tmp_path
):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 20))
    system.in_work()
    worker, child = system.processes["cpu0"], system.child("cpu0")
    own_database.stop()
    child.kill()
    eventually(lambda: "device_lease_not_renewed" in system.log("cpu0").rpartition("exited with")[2])
    own_database.start()
    gate.touch()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 20)
    # By the same worker, and without a single message that was taken and lost.
    assert worker.poll() is None
    assert "raised unexpected" not in system.log("cpu0").rpartition("device_lease_not_renewed")[2]
