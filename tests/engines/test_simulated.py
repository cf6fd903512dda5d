import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.domain.errors import ErrorCode, RecognitionFailed
from pipeline.engines.registry import create
from pipeline.engines.simulated import VARIABLE, SimulatedEngine, Simulation
from tests.pages import image, paper

READ_TWO = """
from tests.pages import image, paper
from pipeline.engines.registry import create
for page in create("simulated", {}).read(image(paper(9, 9), number=number) for number in (1, 2)):
    print(page.number, flush=True)
"""


def pages(*numbers: int):
    return [image(paper(9, 9), number=number) for number in numbers]


def read_in_a_process_of_its_own(**told: object) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "", VARIABLE: json.dumps(told)}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", READ_TWO]
    return subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=60, check=False)


def test_each_page_says_which_one_it_is() -> None:
    found = SimulatedEngine(Simulation()).read(pages(3, 9))
    assert [(page.number, page.lines[0].text) for page in found] == [(3, "page 3"), (9, "page 9")]


def test_what_it_does_is_told_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"faults": {"4": "fail"}}))
    results = create("simulated", {}).read(pages(3, 4))
    assert next(results).number == 3
    with pytest.raises(RecognitionFailed) as caught:
        next(results)
    assert caught.value.code is ErrorCode.ENGINE_FAILED


def test_it_can_run_out_of_memory() -> None:
    with pytest.raises(MemoryError):
        next(SimulatedEngine(Simulation(faults={1: "memory"})).read(pages(1)))


def test_it_can_take_all_the_memory_that_its_process_may_have() -> None:
    done = read_in_a_process_of_its_own(faults={"2": "exhaust"})
    assert (done.returncode, done.stdout) == (1, "1\n")
    assert "MemoryError" in done.stderr


def test_it_can_kill_its_process_each_time() -> None:
    done = read_in_a_process_of_its_own(faults={"2": "kill"})
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "1\n")


def test_it_can_kill_its_process_once(tmp_path: Path) -> None:
    outcomes = [read_in_a_process_of_its_own(faults={"2": "kill_once"}, folder=str(tmp_path)) for _ in range(2)]
    assert [(done.returncode, done.stdout) for done in outcomes] == [(-signal.SIGKILL, "1\n"), (0, "1\n2\n")]


def test_it_can_fail_on_pictures_of_a_size() -> None:
    results = SimulatedEngine(Simulation(sizes={"9x9": "fail"})).read([image(paper(8, 9), number=1), *pages(2)])
    assert next(results).number == 1
    with pytest.raises(RecognitionFailed):
        next(results)


def test_it_can_write_down_which_process_began_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_DEVICE", "cpu:3")
    journal = tmp_path / "journal"
    assert len(list(SimulatedEngine(Simulation(journal=journal)).read(pages(1, 2)))) == 2
    assert journal.read_text() == f"cpu:3 {os.getpid()}\n" * 2


def test_a_fault_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown faults"):
        Simulation(faults={1: "explode"})
