"""The broker stops while chunks are in work, and a new one starts empty in its place."""

import pytest

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually


@pytest.fixture
def broker_url(own_broker):
    return own_broker.url


def test_a_broker_that_is_replaced_by_an_empty_one_costs_no_attempt(system, own_broker, tmp_path):
    gate = system.simulate_gate()
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 30))
    read_without_it = len(system.in_work(2)) * 5
    own_broker.stop()
    own_broker.forget()
    gate.touch()
    system.pages_done(job_id, read_without_it)
    eventually(lambda: "dispatch_put_off" in system.log("dispatcher0"))
    own_broker.start()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 30)
    assert set(system.attempts()) == {("done", None)}
