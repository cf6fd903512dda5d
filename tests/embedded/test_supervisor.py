"""The supervisor, with small shell scripts for processes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.embedded.errors import ProcessFailed
from pipeline.embedded.liveness import identify
from pipeline.embedded.state import ProcessState
from pipeline.embedded.supervisor import ProcessSpec, RestartPolicy, Supervisor
from tests.waiting import eventually

QUICK = RestartPolicy(first_pause=timedelta(milliseconds=10), longest_pause=timedelta(milliseconds=50), max_deaths=4)


def script(folder: Path, text: str, *, name: str = "worker", **how: Any) -> ProcessSpec:
    return ProcessSpec(name=name, argv=("/bin/sh", "-c", text), env={"PATH": os.environ["PATH"]}, folder=folder, **how)


async def until(condition: Any, within: float = 20) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.01)


async def never(_pid: int) -> bool:
    return False


def test_a_process_that_died_is_started_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor = Supervisor(logs=tmp_path, restarts=QUICK)
        await supervisor.start(script(tmp_path, "exec sleep 60"))
        first = supervisor.reports["worker"].identity
        assert first
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: supervisor.reports["worker"].restarts == 1)
        await until(lambda: supervisor.reports["worker"].state is ProcessState.RUNNING)
        report = supervisor.reports["worker"]
        assert report.identity
        assert report.identity != first
        assert report.last_exit == -signal.SIGKILL
        await supervisor.stop()

    asyncio.run(scenario())


def test_a_process_that_keeps_dying_is_left_down_and_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        changes: list[ProcessState] = []
        supervisor = Supervisor(
            logs=tmp_path, restarts=QUICK, on_change=lambda: changes.append(supervisor.reports["worker"].state)
        )
        await supervisor.start(script(tmp_path, "exit 3"))
        await until(lambda: supervisor.reports["worker"].state is ProcessState.DOWN)
        report = supervisor.reports["worker"]
        assert (report.restarts, report.last_exit, report.identity) == (3, 3, None)
        assert changes.count(ProcessState.WAITING) == 3
        assert changes[-1] is ProcessState.DOWN
        await supervisor.stop()

    asyncio.run(scenario())
    assert "left down" in (tmp_path / "worker.log").read_text()


def test_a_process_that_had_settled_is_started_again_as_if_it_had_never_died(tmp_path: Path) -> None:
    async def scenario() -> None:
        settled = RestartPolicy(first_pause=timedelta(milliseconds=10), max_deaths=2, settled=timedelta(microseconds=1))
        supervisor = Supervisor(logs=tmp_path, restarts=settled)
        await supervisor.start(script(tmp_path, "exec sleep 60"))
        for deaths in range(1, 5):
            await until(lambda: supervisor.reports["worker"].state is ProcessState.RUNNING)
            identity = supervisor.reports["worker"].identity
            assert identity
            os.kill(identity.pid, signal.SIGKILL)
            await until(lambda deaths=deaths: supervisor.reports["worker"].restarts == deaths)
        await supervisor.stop()

    asyncio.run(scenario())


def test_pauses_double_up_to_a_bound_and_end() -> None:
    policy = RestartPolicy(first_pause=timedelta(seconds=1), longest_pause=timedelta(seconds=5), max_deaths=6)
    pauses = [policy.pause(deaths) for deaths in range(1, 7)]
    assert pauses == [*(timedelta(seconds=seconds) for seconds in (1, 2, 4, 5, 5)), None]


def test_a_start_that_fails_shows_the_log_and_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor = Supervisor(logs=tmp_path)
        other = script(tmp_path, "exec sleep 60", name="other")
        with pytest.raises(ProcessFailed, match=r"ended with status 7(.|\n)*no such disk"):
            await supervisor.start(other, script(tmp_path, "echo no such disk; exit 7", ready=never))
        assert supervisor.reports == {}

    asyncio.run(scenario())


def test_a_program_that_is_not_there_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor = Supervisor(logs=tmp_path)
        missing = ProcessSpec(name="worker", argv=("/no/such/program",), env={}, folder=tmp_path)
        with pytest.raises(ProcessFailed, match=r"could not be started.*/no/such/program"):
            await supervisor.start(missing)

    asyncio.run(scenario())


def test_a_program_that_goes_missing_is_left_down_in_the_end(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)

    async def scenario() -> None:
        supervisor = Supervisor(logs=tmp_path, restarts=QUICK)
        await supervisor.start(ProcessSpec(name="worker", argv=(str(program),), env={}, folder=tmp_path))
        program.unlink()
        await until(lambda: supervisor.reports["worker"].state is ProcessState.DOWN)
        await supervisor.stop()

    asyncio.run(scenario())


def test_a_process_that_never_gets_ready_is_stopped(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor = Supervisor(logs=tmp_path)
        pids: list[int] = []

        async def note(pid: int) -> bool:
            pids.append(pid)
            return False

        hangs = script(tmp_path, "exec sleep 60", ready=note, ready_within=timedelta(seconds=0.1))
        with pytest.raises(ProcessFailed, match="not ready"):
            await supervisor.start(hangs)
        assert identify(pids[0]) is None

    asyncio.run(scenario())


def test_higher_layers_stop_first(tmp_path: Path) -> None:
    def noting(name: str, layer: int) -> ProcessSpec:
        text = f"trap 'echo {name} >> order; exit' TERM; echo up > {name}; while :; do sleep 0.01; done"
        return script(tmp_path, text, name=name, layer=layer)

    async def scenario() -> None:
        supervisor = Supervisor(logs=tmp_path)
        await supervisor.start(noting("work", 1))
        await supervisor.start(noting("server", 0))
        await until(lambda: (tmp_path / "work").exists() and (tmp_path / "server").exists())
        await supervisor.stop()

    asyncio.run(scenario())
    assert (tmp_path / "order").read_text().split() == ["work", "server"]


def test_a_process_that_ignores_its_signal_is_killed_with_its_children(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor = Supervisor(logs=tmp_path)
        stubborn = "trap '' TERM; sleep 60 & echo $! > child; while :; do sleep 1; done"
        await supervisor.start(script(tmp_path, stubborn, stop_grace=timedelta(seconds=0.1)))
        await until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
        await supervisor.stop()

    asyncio.run(scenario())
    child = int((tmp_path / "child").read_text())
    eventually(lambda: identify(child) is None)


def test_what_a_process_prints_is_in_its_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor = Supervisor(logs=tmp_path, restarts=RestartPolicy(max_deaths=1))
        await supervisor.start(script(tmp_path, "echo one; echo two >&2"))
        await until(lambda: supervisor.reports["worker"].state is ProcessState.DOWN)
        await supervisor.stop()

    asyncio.run(scenario())
    assert (tmp_path / "worker.log").read_text().startswith("one\ntwo\n")


def test_nothing_survives_a_killed_supervisor(tmp_path: Path) -> None:
    program = f"""
import asyncio, signal
from pathlib import Path
from pipeline.embedded.supervisor import ProcessSpec, Supervisor

async def main():
    supervisor = Supervisor(logs=Path({str(tmp_path)!r}))
    for name in ("one", "two"):
        await supervisor.start(
            ProcessSpec(name=name, argv=("/bin/sleep", "60"), env={{}}, folder=Path("/"), death_signal=signal.SIGTERM)
        )
    print(*(report.identity.pid for report in supervisor.reports.values()), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout
        pids = [int(pid) for pid in supervisor.stdout.readline().split()]
        assert len(pids) == 2
        assert all(identify(pid) for pid in pids)
        supervisor.kill()
    eventually(lambda: not any(identify(pid) for pid in pids), within=5)


def test_a_stop_in_the_pause_before_a_restart_is_quick(tmp_path: Path) -> None:
    async def scenario() -> float:
        supervisor = Supervisor(
            logs=tmp_path,
            restarts=RestartPolicy(first_pause=timedelta(seconds=60), longest_pause=timedelta(seconds=60)),
        )
        await supervisor.start(script(tmp_path, "exit 1"))
        await until(lambda: supervisor.reports["worker"].state is ProcessState.WAITING)
        begun = time.monotonic()
        await supervisor.stop()
        return time.monotonic() - begun

    assert asyncio.run(scenario()) < 5
