"""F1, F4, F11 and all of them together: nothing of a failed attempt is left on the device when the next one begins."""

import json
import os
import random
from contextlib import closing
from datetime import timedelta

import pytest

from pipeline.engines.simulated import VARIABLE, SimulatedEngine, Simulation
from pipeline.ports.devices import ChunkEnded, PagesFinished
from tests.device_runs import (
    CAPACITY_BYTES,
    MODEL_BYTES,
    PAGE_BYTES,
    InTheWorker,
    accelerator,
    chunk,
    read_all,
    store,
    supervisor,
)
from tests.pages import image, paper
from tests.system import QUICK, scan

BROKEN = ("raise", "raise_chained", "raise_from_none")


@pytest.fixture
def simulate(environment, monkeypatch, tmp_path):
    """Let runners of this test simulate a device, and return it as the test sees it."""
    for name, value in {**environment, **QUICK}.items():
        monkeypatch.setenv(name, value)

    def told(*, teardown_ms=0, **simulation):
        device = accelerator(teardown_ms=teardown_ms)
        monkeypatch.setenv(VARIABLE, json.dumps({"folder": str(tmp_path), "accelerator": device, **simulation}))
        return Simulation.from_environment().device("cuda:0")

    return told


@pytest.fixture
def original(settings, tmp_path):
    return store(settings, scan(tmp_path, 40))


def assert_nothing_stacks(device, chunks, simulated):
    """Read chunks, all of which break in the forward pass, and look at the device whenever one is claimed."""
    seen = read_all(device, chunks, simulated.used_bytes)
    assert seen.outcomes == {"internal": len(chunks)}
    assert seen.claims == [MODEL_BYTES] * len(chunks)
    assert simulated.seen()[1] == 0


def test_failed_attempts_do_not_stack(simulate, original, tmp_path):
    simulated = simulate(faults={number: BROKEN[number % 3] for number in range(1, 13)})
    device = supervisor(tmp_path)
    try:
        assert_nothing_stacks(device, [chunk(original, number) for number in range(1, 13)], simulated)
        assert read_all(device, [chunk(original, 13)], simulated.used_bytes).outcomes == {"done": 1}
    finally:
        device.replace()
    assert simulated.seen()[0] <= MODEL_BYTES + 2 * PAGE_BYTES  # the page's and what the frame that broke took


def test_they_would_in_a_worker_that_computes_itself(simulate, original):
    """What the split in supervisor and runner is for: the same chunks and the same check, without it."""
    simulated = simulate(faults={"1": "raise_chained"})
    in_worker = InTheWorker(SimulatedEngine(Simulation.from_environment()), image(paper(400, 800), number=1))
    with pytest.raises(AssertionError) as caught:
        assert_nothing_stacks(in_worker, [chunk(original, 1) for _ in range(12)], simulated)
    assert str(MODEL_BYTES + 2 * PAGE_BYTES) in str(caught.value)


def test_a_runner_that_dies_is_followed_by_one_that_waits_until_its_memory_is_gone(simulate, original, tmp_path):
    simulated = simulate(faults={"3": "kill_once"}, teardown_ms=2000)
    device = supervisor(tmp_path)
    try:
        seen = read_all(device, [chunk(original, 1, 2, 3, 4), chunk(original, 3, 4, failures=1)], simulated.used_bytes)
    finally:
        device.replace()
    assert seen.outcomes == {"process_died": 1, "done": 1}
    assert seen.claims == [MODEL_BYTES] * 2
    assert simulated.seen() == (MODEL_BYTES + PAGE_BYTES, 0)


def test_a_device_that_does_not_become_free_is_not_served(simulate, original, tmp_path):
    simulated = simulate()
    strangers = simulated.allocate(CAPACITY_BYTES // 2)
    device = supervisor(tmp_path, gone=timedelta(seconds=0.5), sick_after=2)
    try:
        seen = read_all(device, [], simulated.used_bytes)
        for _ in range(2):
            with pytest.raises(Exception, match="of the device are held by processes"):
                device.make_ready()
            # From the first time on: what can't be read here is not to be claimed.
            assert "are held by processes" in device.problem()
        assert device.is_sick
        del strangers
        device.make_ready()
        seen = read_all(device, [chunk(original, 1)], simulated.used_bytes)
    finally:
        device.replace()
    assert seen.outcomes == {"done": 1}
    assert not device.is_sick
    assert device.problem() is None


def test_memory_that_somebody_else_takes_keeps_the_device_from_claiming_until_it_is_free(simulate, original, tmp_path):
    simulated = simulate()
    device = supervisor(tmp_path)
    try:
        device.make_ready()
        assert device.problem() is None
        strangers = simulated.allocate(600 * 2**20)
        assert device.problem() == f"600 MiB of it are held by processes {os.getpid()}"
        assert not device.is_sick  # its runner stays warm for when it is free again
        del strangers
        assert device.problem() is None
        # What is taken while a chunk is read is not mistaken for the runner's own afterwards.
        with closing(device.read(chunk(original, 1))) as events:
            for event in events:
                assert device.problem() is None or isinstance(event, ChunkEnded)
                if isinstance(event, PagesFinished):
                    strangers = simulated.allocate(600 * 2**20)
        assert strangers
        assert device.problem() == f"600 MiB of it are held by processes {os.getpid()}"
    finally:
        device.replace()


def test_a_runner_that_leaks_is_replaced_before_it_takes_another_chunk(simulate, original, tmp_path):
    simulated = simulate(faults=dict.fromkeys(range(2, 40, 5), "leak"))
    device = supervisor(tmp_path)
    chunks = [chunk(original, number) for number in range(1, 21)]
    try:
        seen = read_all(device, chunks, simulated.used_bytes)
    finally:
        device.replace()
    assert seen.outcomes == {"done": 20}
    assert seen.claims == [MODEL_BYTES] * 20
    leaks = [one.after_bytes for one in seen.measured if one.after_bytes != MODEL_BYTES]
    assert leaks == [MODEL_BYTES + PAGE_BYTES] * 4
    assert simulated.seen()[1] == 0


@pytest.mark.timeout(900)
def test_500_chunks_of_which_one_in_ten_fails_in_one_of_six_ways(simulate, original, tmp_path):
    ways = ("fail", "raise_chained", "memory", "leak", "poison", "kill")
    by_page = {number: ways[(number - 1) % 6] for number in range(1, 7)}
    simulated = simulate(faults=by_page, teardown_ms=100)
    chance = random.Random(4)
    pages = [chance.randint(1, 6) if number % 10 == 0 else chance.randint(7, 40) for number in range(500)]
    device = supervisor(tmp_path)
    try:
        seen = read_all(device, [chunk(original, page) for page in pages], simulated.used_bytes)
    finally:
        device.replace()
    struck = [by_page[page] for page in pages if page in by_page]
    assert set(struck) == set(ways)
    assert seen.claims == [MODEL_BYTES] * 500
    assert seen.outcomes == {
        "internal": struck.count("raise_chained"),
        "out_of_memory": struck.count("memory"),
        "device_broken": struck.count("poison"),
        "process_died": struck.count("kill"),
        "done": 450 + struck.count("fail") + struck.count("leak"),
    }
    peak_bytes, shared = simulated.seen()
    assert shared == 0
    assert peak_bytes <= MODEL_BYTES + 2 * PAGE_BYTES
    assert [outcome for _, outcome in seen.pages].count("recognised") == 450 + struck.count("leak")
