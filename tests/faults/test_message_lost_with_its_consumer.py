"""A worker stands still, is sent a message, and is killed: the broker has given the message out and nobody has it."""

import os
import signal

import redis

from pipeline.domain.document import Lane
from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually
from workers.app import create_app
from workers.chains import CeleryChains

PAGES = 20


def waits_for_a_message(broker):
    number = str(broker.connection_pool.connection_kwargs["db"])
    return any(client["db"] == number and "b" in client["flags"] for client in broker.client_list())


def send_while_it_stands_still(system, broker, worker):
    """Send chunks until one was given out to a worker that stands still: each time it asks, it does so for a second."""
    queue = CeleryChains(create_app(system.settings))
    for due in system.rows.take_chunks(PAGES):
        # The first question makes the connection.
        eventually(lambda: queue.depth(Lane.CPU) == 0 and waits_for_a_message(broker))
        os.kill(worker.pid, signal.SIGSTOP)
        queue.send_chunk(due)
        if queue.depth(Lane.CPU) == 0:
            return
        os.kill(worker.pid, signal.SIGCONT)
    raise AssertionError("no message was given out to a worker that stands still")


def test_a_message_that_is_lost_with_its_consumer_is_sent_again(system, tmp_path):
    system.environment["MUNIMENT_CHUNKS__MAX_PAGES"] = "1"
    system.start(slots=0)
    job_id = system.submit(scan(tmp_path, PAGES))
    eventually(lambda: system.status(job_id).state is JobState.RUNNING)
    for name in ("dispatcher0", "io0"):
        system.kill(name)
    with redis.Redis.from_url(system.settings.broker.url.get_secret_value()) as broker:
        broker.flushdb()
        send_while_it_stands_still(system, broker, system.spawn_slot(0))
    system.kill("cpu0")
    system.start()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, PAGES)
    assert set(system.attempts()) == {("done", None)}
    assert "chunks_sent_again" in system.log("dispatcher0")
