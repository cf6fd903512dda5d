"""The whole stack: servers made usable, the processes that work, Flower; and nothing left of it afterwards."""

import base64
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pipeline.embedded.liveness import is_alive
from pipeline.embedded.prepare import store_client
from pipeline.embedded.stack import StackState, read_state, start_detached, stop
from pipeline.settings import Settings
from tests.waiting import eventually


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    stop(tmp_path / "home")


def pipeline_processes(home: Path) -> dict[int, str]:
    """Command lines of all processes that were told of this home, also those that the supervisor does not know."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"MUNIMENT_HOME={home}\0" in (process / "environ").read_text():
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return {pid: line for pid, line in found.items() if line}


def anything_runs(home: Path, state: StackState) -> bool:
    known = [state.supervisor, *(report.identity for report in state.processes.values() if report.identity)]
    return any(is_alive(process) for process in known) or bool(pipeline_processes(home))


def answer(url: str, credentials: str | None = None) -> int | None:
    request = urllib.request.Request(url)
    if credentials:
        request.add_header("Authorization", credentials)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return None


def basic(credentials: str) -> str:
    return "Basic " + base64.b64encode(credentials.encode()).decode()


def works_on(home: Path, device: str) -> bool:
    """Whether a pool child of this device's worker is there, next to the worker itself."""
    return sum(f"--device {device}" in line for line in pipeline_processes(home).values()) >= 2


def cores_of(home: Path, program: str) -> list[set[int]]:
    """Return the cores that processes of the stack that run a program may run on."""
    return [os.sched_getaffinity(pid) for pid, line in pipeline_processes(home).items() if program in line]


def test_a_stack_is_usable_when_ready_and_leaves_nothing_when_killed_or_stopped(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = start_detached(home, with_flower=True, cpu_slots=1)
    assert set(state.processes) == {"valkey", "seaweed", "postgres", "dispatcher", "io", "launcher", "api", "flower"}
    monkeypatch.setenv("MUNIMENT_HOME", str(home))
    settings = Settings()
    assert settings.database.url
    with psycopg.connect(settings.database.url.get_secret_value().replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT count(*) FROM job").fetchone() == (0,)
    assert store_client(settings.objects).bucket_exists(settings.objects.bucket)

    assert state.api
    assert answer(f"{state.api.url}/readyz") == 200
    assert answer(f"{state.api.url}/v1/jobs") == 401
    assert answer(f"{state.api.url}/v1/jobs", f"Bearer {state.api.key}") == 200
    assert answer(f"{state.api.admin_url}/v1/queues", f"Bearer {state.api.key}") == 200

    assert state.flower
    flower = state.flower
    eventually(lambda: answer(f"{flower.url}/healthcheck") == 200, within=60)
    assert answer(f"{flower.url}/api/tasks") == 401
    assert answer(f"{flower.url}/api/tasks", basic(f"{flower.user}:{flower.password}")) == 200

    eventually(lambda: works_on(home, "cpu:0"), within=60)
    os.kill(state.supervisor.pid, signal.SIGKILL)
    eventually(lambda: not anything_runs(home, state))

    *others, own = sorted(os.sched_getaffinity(0))
    monkeypatch.setenv("MUNIMENT_DEVICES__CPU_CORES", f"[{own}]" if others else "[]")
    again = start_detached(home, cpu_slots=1)
    assert again.settings == state.settings
    # Its port may have been taken meanwhile.
    assert again.api
    assert again.api.key == state.api.key
    assert again.flower is None
    eventually(lambda: works_on(home, "cpu:0"), within=60)
    if others:
        eventually(lambda: cores_of(home, "workers.runner") == [{own}], within=60)
        assert cores_of(home, "pipeline.api.server") == [set(others)]
    assert stop(home)
    assert not anything_runs(home, again)
    assert read_state(home) is None
    assert not stop(home)
