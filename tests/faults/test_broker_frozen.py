"""SIGSTOP: the broker takes connections and answers nothing."""

import pytest

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually


@pytest.fixture
def broker_url(own_broker):
    return own_broker.url


def test_what_is_submitted_to_a_frozen_broker_waits_in_the_rows(system, own_broker, tmp_path):
    gate = system.simulate_gate()
    system.start(slots=2)
    first = system.submit(scan(tmp_path, 20))
    system.in_work(2)
    own_broker.freeze()
    # Submitting asks nothing of the broker.
    second = system.submit(scan(tmp_path, 3, name="second.pdf"))
    assert system.status(second).state is JobState.SUBMITTED
    # What needs no message goes on.
    unwanted = system.submit(scan(tmp_path, 3, name="unwanted.pdf"))
    system.rows.cancel([unwanted])
    assert system.finished(unwanted).state is JobState.CANCELLED
    gate.touch()
    eventually(lambda: "dispatch_put_off" in system.log("dispatcher0"), within=120)
    own_broker.thaw()
    for job_id, pages in ((first, 20), (second, 3)):
        assert system.finished(job_id).state is JobState.SUCCEEDED
        system.assert_whole(job_id, pages)
    assert set(system.attempts()) == {("done", None)}
