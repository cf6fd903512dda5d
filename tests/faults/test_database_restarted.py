"""Postgres stops while chunks are in work, in order or not, and comes back with what was committed."""

import pytest

from pipeline.domain.states import JobState
from tests.system import scan


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
