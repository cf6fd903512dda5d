"""CLIENT KILL: the broker cuts every connection while chunks are in work."""

import pytest
import redis

from pipeline.domain.states import JobState
from tests.system import scan


@pytest.fixture
def broker_url(own_broker):
    return own_broker.url


def test_connections_to_the_broker_that_are_cut_start_nothing_twice(system, own_broker, tmp_path):
    gate = system.simulate_gate()
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 30))
    system.in_work(2)
    with redis.Redis.from_url(own_broker.url) as broker:
        before = {client["id"] for client in broker.client_list()} - {str(broker.client_id())}
        for kind in ("normal", "pubsub"):
            broker.client_kill_filter(_type=kind, skipme=True)
        # Some may have come back by now, as others.
        assert before
        assert before.isdisjoint(client["id"] for client in broker.client_list())
    gate.touch()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 30)
    assert set(system.attempts()) == {("done", None)}
