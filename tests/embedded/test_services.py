"""The three servers, started for real in homes of their own beside those of the test run."""

import asyncio
import io
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from minio.error import S3Error
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from pipeline.embedded.errors import HomeInUse, ProcessFailed
from pipeline.embedded.liveness import ProcessIdentity, is_alive
from pipeline.embedded.prepare import prepare_bucket, store_client
from pipeline.embedded.services import ServerOptions, on_free_ports
from pipeline.embedded.serving import StackOptions
from pipeline.embedded.stack import (
    StackError,
    StackHandle,
    StackState,
    read_state,
    serve,
    share,
    start_detached,
    stop,
)
from pipeline.settings import ObjectSettings, Settings
from tests.waiting import eventually

SERVERS = StackOptions(only_servers=True, servers=ServerOptions(fsync=False))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Longer than the path of a Unix socket may be."""
    home = tmp_path / ("a long name " * 10) / "home"
    yield home
    stop(home)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackHandle]:
    """A stack for tests that only look at it."""
    handle = share(tmp_path_factory.mktemp("running") / "home", SERVERS)
    yield handle
    handle.stop()


def database(state: StackState, name: str = "postgres") -> psycopg.Connection:
    url = state.settings["database"]["url"].replace("+psycopg", "").rpartition("/")[0]
    return psycopg.connect(f"{url}/{name}", autocommit=True)


def broker(state: StackState) -> redis.Redis:
    return redis.Redis.from_url(state.settings["broker"]["url"])


def objects(state: StackState) -> ObjectSettings:
    return ObjectSettings.model_validate(state.settings["objects"])


def processes(state: StackState) -> list[ProcessIdentity]:
    found = [state.supervisor, *(report.identity for report in state.processes.values() if report.identity)]
    assert len(found) == 4
    return found


def test_what_the_servers_hold_survives_a_restart_and_a_killed_supervisor(home: Path) -> None:
    handle = share(home, SERVERS)
    state = handle.state
    with database(state) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with broker(state) as client:
        client.set("kept", "42")
    prepare_bucket(objects(state))
    store_client(objects(state)).put_object("muniment", "kept", io.BytesIO(b"42"), 2)
    handle.stop()
    assert read_state(home) is None
    assert not any(is_alive(process) for process in processes(state))
    assert_kept(home)

    # Appends to the broker's file are synced once a second; what was there before a restart is.
    handle = share(home, SERVERS)
    os.kill(handle.state.supervisor.pid, signal.SIGKILL)
    eventually(lambda: not any(is_alive(process) for process in processes(handle.state)))
    assert read_state(home) is None
    assert_kept(home)


def assert_kept(home: Path) -> None:
    handle = share(home, SERVERS)
    with database(handle.state) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    with broker(handle.state) as client:
        assert client.get("kept") == b"42"
    prepare_bucket(objects(handle.state))
    answer = store_client(objects(handle.state)).get_object("muniment", "kept")
    assert answer.read() == b"42"
    answer.close()
    handle.stop()


def test_a_home_has_one_supervisor(running: StackHandle) -> None:
    with pytest.raises(HomeInUse, match="already"):
        asyncio.run(serve(running.home, Settings()))
    with pytest.raises(HomeInUse, match="already"):
        start_detached(running.home)
    assert read_state(running.home) == running.state


def test_users_share_a_stack_and_the_last_one_ends_it(home: Path) -> None:
    first, second = share(home, SERVERS), share(home, SERVERS)
    assert first.state == second.state
    first.stop()
    assert is_alive(first.state.supervisor)
    with broker(second.state) as client:
        assert client.ping()
    second.stop()
    second.stop()
    assert not any(is_alive(process) for process in processes(first.state))
    assert not (home / "state.json").exists()


def test_a_stack_ends_with_a_user_that_is_killed(home: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from pipeline.embedded.serving import StackOptions
from pipeline.embedded.stack import share
share(Path({str(home)!r}), StackOptions(only_servers=True))
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as user:
        assert user.stdout
        assert user.stdout.readline() == b"ready\n"
        state = read_state(home)
        user.kill()
    assert state
    eventually(lambda: not any(is_alive(process) for process in processes(state)))
    assert not (home / "state.json").exists()


def test_a_server_that_is_killed_comes_back_at_its_address(home: Path) -> None:
    handle = share(home, SERVERS)
    for name in ("postgres", "valkey", "seaweed"):
        identity = handle.state.processes[name].identity
        assert identity
        os.kill(identity.pid, signal.SIGKILL)

    def restarted() -> bool:
        state = read_state(home)
        return state is not None and all(
            report.restarts >= 1 and report.state == "running" for report in state.processes.values()
        )

    eventually(restarted)
    with database(handle.state) as connection, broker(handle.state) as client:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert client.ping()
    prepare_bucket(objects(handle.state))
    state = read_state(home)
    assert state
    handle.stop()
    assert not any(is_alive(process) for process in processes(state))


def test_nothing_in_a_home_is_open_to_others(running: StackHandle) -> None:
    assert stat.S_IMODE(running.home.stat().st_mode) == 0o700
    for name in ("state.json", "secrets.json", "valkey/valkey.conf"):
        assert stat.S_IMODE((running.home / name).stat().st_mode) == 0o600


def test_no_secret_is_on_a_command_line(running: StackHandle) -> None:
    lines = [Path(f"/proc/{process.pid}/cmdline").read_text() for process in processes(running.state)]
    secrets = json.loads((running.home / "secrets.json").read_text())
    assert not any(secret in line for secret in secrets.values() for line in lines)


def test_no_server_lets_strangers_in(running: StackHandle) -> None:
    with broker(running.state) as client, pytest.raises(redis.AuthenticationError):
        redis.Redis(port=client.connection_pool.connection_kwargs["port"]).ping()
    url = make_url(running.state.settings["database"]["url"]).set(drivername="postgresql", password="wrong")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.render_as_string(hide_password=False))
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        store_client(objects(running.state).model_copy(update={"secret_key": SecretStr("wrong")})).list_buckets()


def listening(pid: int) -> set[str]:
    """Addresses on which a process listens, from /proc: 0100007F is 127.0.0.1."""
    inodes = {str(descriptor.readlink()) for descriptor in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1].partition(":")[0])
    return found


def test_all_listen_on_the_loopback_alone(running: StackHandle) -> None:
    addresses = {address for process in processes(running.state) for address in listening(process.pid)}
    assert addresses == {"0100007F"}


def test_servers_that_are_named_are_used(home: Path, settings: Settings, environment: dict[str, str]) -> None:
    program = f"""
from pathlib import Path
from pipeline.embedded.serving import StackOptions
from pipeline.embedded.stack import share
handle = share(Path({str(home)!r}), StackOptions(only_servers=True))
print(handle.state.processes, handle.state.settings["broker"]["url"])
handle.stop()
"""
    env = {**os.environ, **environment}
    printed = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert settings.broker.url
    assert printed.stdout.split() == ["{}", settings.broker.url.get_secret_value()]


def test_a_data_folder_of_another_version_is_refused_with_advice(home: Path) -> None:
    data = home / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(StackError, match="made by Postgres 9"):
        share(home, SERVERS)
    assert read_state(home) is None


def test_a_server_that_can_not_start_is_reported_with_its_log(home: Path) -> None:
    share(home, SERVERS).stop()
    (home / "postgres" / "data" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(StackError, match="no_such_setting"):
        share(home, SERVERS)
    assert read_state(home) is None


def test_a_broker_whose_file_is_damaged_starts_empty(home: Path) -> None:
    handle = share(home, SERVERS)
    with broker(handle.state) as client:
        client.set("a hint", "x" * 1_000)
    handle.stop()
    for path in (home / "valkey" / "appendonlydir").glob("*.aof"):
        path.write_bytes(b"*3\r\n$nonsense\r\n" * 100)
    handle = share(home, SERVERS)
    with broker(handle.state) as client:
        assert client.dbsize() == 0
    assert (home / "valkey" / "appendonlydir.damaged").exists()
    handle.stop()


def test_a_port_lost_to_a_stranger_is_replaced(tmp_path: Path) -> None:
    answers = [
        ProcessFailed("valkey", "ended with status 1", "bind: Address already in use"),
        ProcessFailed("seaweed", "ended with status 1", "Port allocation failed: port 20001 is not available"),
        "started",
    ]

    async def start() -> str:
        answer = answers.pop(0)
        if isinstance(answer, ProcessFailed):
            raise answer
        return answer

    assert asyncio.run(on_free_ports(start)) == "started"


def test_any_other_failure_is_not_tried_again() -> None:
    starts = []

    async def start() -> None:
        starts.append(1)
        raise ProcessFailed("valkey", "ended with status 1", "Bad directive")

    with pytest.raises(ProcessFailed, match="Bad directive"):
        asyncio.run(on_free_ports(start))
    assert len(starts) == 1
