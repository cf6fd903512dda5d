"""The object store is down, answers 503, breaks off in the middle of writes, or is slow."""

import re
import threading

import pytest

from pipeline.domain.states import JobState
from tests.faults.proxy import PASS_ON, Rule
from tests.system import scan
from tests.waiting import eventually

ERROR_503 = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"


class Answers503(Rule):
    """Answers each request itself."""

    def said(self, link, piece):
        if re.match(rb"(GET|PUT|HEAD|POST|DELETE) ", piece):
            link.client.sendall(ERROR_503)


class BreaksOffWrites(Rule):
    """Passes on a half of what each PUT carries, and cuts the connection."""

    def __init__(self):
        self._left = {}

    def said(self, link, piece):
        if piece.startswith(b"PUT "):
            head, end, piece = piece.partition(b"\r\n\r\n")
            link.server.sendall(head + end)
            self._left[link] = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) // 2
        if link not in self._left:
            link.server.sendall(piece)
            return
        half = piece[: self._left[link]]
        link.server.sendall(half)
        self._left[link] -= len(half)
        if self._left[link] == 0:
            link.cut()


class HoldsBack(Rule):
    """Passes nothing on before it is told to."""

    def __init__(self):
        self.asked = threading.Event()
        self.released = threading.Event()

    def said(self, link, piece):
        self.asked.set()
        self.released.wait()
        super().said(link, piece)


def take_down(way):
    way.close()
    return way.open


def obey(rule):
    def begin(way):
        way.rule = rule()
        return lambda: setattr(way, "rule", PASS_ON)

    return begin


FAILURES = {"down": take_down, "answers 503": obey(Answers503), "breaks off writes": obey(BreaksOffWrites)}


@pytest.fixture
def system(system, way_to_the_store):
    """Processes go by the proxy, the test itself doesn't."""
    system.environment["MUNIMENT_OBJECTS__ENDPOINT"] = way_to_the_store.address
    return system


def begun(system):
    """Wait until the workers have found everything fit, without which they would not begin."""
    eventually(lambda: all(" ready." in system.log(name) for name in ("io0", "cpu0")))


@pytest.mark.parametrize("begin", FAILURES.values(), ids=FAILURES)
def test_a_device_whose_segments_the_store_does_not_take_reads_them_again(system, tmp_path, way_to_the_store, begin):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 10))
    system.in_work()
    end = begin(way_to_the_store)
    gate.touch()
    eventually(lambda: ("failed", "store_unavailable") in system.attempts())
    assert system.status(job_id).pages_done == 0
    end()
    status = system.finished(job_id)
    assert (status.state, status.outcomes) == (JobState.SUCCEEDED, {"recognised": 10})
    system.assert_whole(job_id, 10)
    assert set(system.attempts()) == {("done", None), ("failed", "store_unavailable")}


def test_steps_that_the_store_fails_are_taken_again(system, tmp_path, way_to_the_store):
    gate = system.simulate_gate()
    system.start(dispatchers=0)
    begun(system)
    way_to_the_store.close()
    # It alone sees the store all the time; else it would send nothing that could only fail.
    direct = {"MUNIMENT_OBJECTS__ENDPOINT": system.settings.objects.endpoint}
    system.spawn_dispatcher(0, **direct)
    job_id = system.submit(scan(tmp_path, 5))

    def failed_in(state):
        rows = system.rows.sql(
            "SELECT 1 FROM job WHERE state = :state AND error_code = 'store_unavailable'", state=state
        )
        return rows != []

    eventually(lambda: failed_in(JobState.SUBMITTED))
    way_to_the_store.open()
    system.in_work()
    # Nobody merges before the store is down again.
    system.kill("dispatcher0")
    gate.touch()
    eventually(lambda: system.status(job_id).state is JobState.MERGING)
    way_to_the_store.close()
    system.spawn_dispatcher(0, **direct)
    eventually(lambda: failed_in(JobState.MERGING))
    way_to_the_store.open()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 5)
    assert set(system.attempts()) == {("done", None)}


def test_nothing_is_sent_that_could_only_fail_for_want_of_the_store(system, tmp_path, way_to_the_store):
    system.start()
    begun(system)
    eventually(lambda: "dispatcher_started" in system.log("dispatcher0"))
    way_to_the_store.close()

    def rounds_put_off():
        return system.log("dispatcher0").count("dispatch_put_off")

    eventually(rounds_put_off)
    # The test itself sees the store all the time.
    job_id = system.submit(scan(tmp_path, 5))
    before = rounds_put_off()
    eventually(lambda: rounds_put_off() > before + 1)
    assert system.rows.sql("SELECT attempt, dispatched_at FROM job") == [(0, None)]
    way_to_the_store.open()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 5)
    assert [tuple(row) for row in system.rows.sql("SELECT failures, lost, waits FROM job")] == [(0, 0, 0)]


def test_a_chunk_outlives_its_lease_while_the_store_is_slow(system, tmp_path, way_to_the_store):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 5))
    [chunk] = system.in_work()
    rule = way_to_the_store.rule = HoldsBack()
    gate.touch()
    assert rule.asked.wait(60)
    lease = "SELECT lease_until FROM chunk WHERE id = :id"
    [first] = system.rows.sql(lease, id=chunk.id)
    past = f"SELECT 1 FROM chunk WHERE id = :id AND clock_timestamp() > '{first.lease_until}'"
    eventually(lambda: system.rows.sql(past, id=chunk.id))
    rule.released.set()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 5)
    assert set(system.attempts()) == {("done", None)}
