"""FLUSHALL: the broker loses every message, and the bindings of its queues, again and again."""

import redis

from pipeline.domain.states import JobState
from tests.system import scan


def test_a_broker_that_forgets_everything_costs_nothing(system, tmp_path):
    system.simulate(page_ms=60)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 50))
    for pages in (8, 20, 32):
        system.pages_done(job_id, pages)
        with redis.Redis.from_url(system.settings.broker.url.get_secret_value()) as broker:
            broker.flushdb()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 50)
