"""Dispatchers send webhooks: what becomes of them, and of the documents, when an endpoint or a dispatcher fails."""

import threading

import pytest

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually
from tests.web import WebServer, says


@pytest.fixture
def system(system):
    """A system that may send to this host."""
    system.environment |= {
        "MUNIMENT_WEBHOOKS__HTTP": "true",
        "MUNIMENT_WEBHOOKS__PORTS": "[]",
        "MUNIMENT_WEBHOOKS__TIMEOUT": "60",
        "MUNIMENT_WEBHOOKS__ALLOWED_NETWORKS": '["127.0.0.1/32"]',
    }
    return system


def states(system):
    return [row.state for row in system.rows.sql("SELECT state FROM delivery ORDER BY id")]


def test_a_dispatcher_that_dies_after_the_post_posts_again_with_the_same_id(system, tmp_path):
    entered, leave = threading.Event(), threading.Event()

    def answer(handler):
        entered.set()
        leave.wait(60)
        says()(handler)

    with WebServer(answer) as server:
        job_id = system.submit(scan(tmp_path, 1), callback_url=server.url)
        system.rows.sql("UPDATE job SET cancel_requested = true WHERE id = :id", id=job_id)
        system.spawn_dispatcher(0)
        assert entered.wait(120)
        system.kill("dispatcher0")
        leave.set()
        assert states(system) == ["due"]
        system.rows.sql("UPDATE endpoint SET lease_until = now(); UPDATE delivery SET next_at = now()")
        system.spawn_dispatcher(1)
        eventually(lambda: states(system) == ["delivered"])
    first, again = server.asked
    assert (first.headers["Muniment-Delivery"], first.body) == (again.headers["Muniment-Delivery"], again.body)
    attempts = system.rows.sql("SELECT number, status, error FROM delivery_attempt ORDER BY number")
    assert [tuple(row) for row in attempts] == [(1, None, "lost"), (2, 200, None)]


def test_a_dispatcher_that_is_told_to_stop_does_not_wait_for_an_endpoint(system, tmp_path):
    entered, leave = threading.Event(), threading.Event()

    def silent(_):
        entered.set()
        leave.wait(120)

    with WebServer(silent) as server:
        job_id = system.submit(scan(tmp_path, 1), callback_url=server.url)
        system.rows.sql("UPDATE job SET cancel_requested = true WHERE id = :id", id=job_id)
        dispatcher = system.spawn_dispatcher(0)
        assert entered.wait(120)
        dispatcher.terminate()
        assert dispatcher.wait(40) == 0
        leave.set()
    assert states(system) == ["due"]


def test_endpoints_that_are_dead_or_silent_hold_up_neither_documents_nor_others(system, tmp_path):
    released = threading.Event()
    with WebServer(says()) as server:
        dead = server.url
    system.start()
    with WebServer(lambda _: released.wait(120)) as silent, WebServer(says()) as well:
        jobs = [
            system.submit(scan(tmp_path, 2, name=f"{number}.pdf"), callback_url=url)
            for number, url in enumerate((dead, silent.url, dead, well.url))
        ]
        for job_id in jobs:
            assert system.finished(job_id).state is JobState.SUCCEEDED
        eventually(lambda: silent.asked and sorted(states(system)) == ["delivered", "due", "due", "due"])
        eventually(lambda: system.rows.sql("SELECT failures FROM endpoint WHERE failures > 0"))
        assert len(well.asked) == 1
        released.set()
