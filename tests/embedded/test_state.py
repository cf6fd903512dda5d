"""The state file."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from pipeline.embedded.credentials import load_or_create
from pipeline.embedded.liveness import ProcessIdentity, identify
from pipeline.embedded.state import (
    ApiAccess,
    FlowerAccess,
    Phase,
    ProcessReport,
    ProcessState,
    StackState,
    read_state,
    remove_state,
    state_path,
    write_state,
)
from pipeline.settings import Settings


def state_of(supervisor: ProcessIdentity) -> StackState:
    return StackState(
        phase=Phase.READY,
        while_attached=False,
        supervisor=supervisor,
        settings={
            "database": {"url": "postgresql+psycopg://muniment:pw@127.0.0.1:20001/muniment"},
            "broker": {"url": "redis://:pw@127.0.0.1:20002/0"},
            "objects": {"endpoint": "127.0.0.1:20003", "access_key": "a", "secret_key": "s", "bucket": "muniment"},
        },
        api=ApiAccess(
            url="http://127.0.0.1:20005",
            admin_url="http://127.0.0.1:20006",
            key="mun_0_0",
        ),
        flower=FlowerAccess(url="http://127.0.0.1:20004", user="muniment", password="pw"),
        processes={
            "valkey": ProcessReport(state=ProcessState.RUNNING, identity=supervisor),
            "io": ProcessReport(state=ProcessState.WAITING, identity=None, restarts=2, last_exit=-9),
        },
    )


def myself() -> ProcessIdentity:
    identity = identify(os.getpid())
    assert identity
    return identity


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_state(tmp_path, state_of(myself()))
    assert read_state(tmp_path) == state_of(myself())


def test_only_its_owner_can_read_a_state(tmp_path: Path) -> None:
    write_state(tmp_path, state_of(myself()))
    assert stat.S_IMODE(state_path(tmp_path).stat().st_mode) == 0o600


def test_a_removed_state_is_no_state(tmp_path: Path) -> None:
    write_state(tmp_path, state_of(myself()))
    remove_state(tmp_path)
    remove_state(tmp_path)
    assert read_state(tmp_path) is None


def test_the_state_of_a_dead_supervisor_is_no_state(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        identity = identify(process.pid)
        process.kill()
    assert identity
    write_state(tmp_path, state_of(identity))
    assert read_state(tmp_path) is None


def test_a_recycled_process_id_is_not_the_supervisor(tmp_path: Path) -> None:
    write_state(tmp_path, state_of(ProcessIdentity(pid=os.getpid(), started=myself().started - 1)))
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 99}', '{"version": 1}'])
def test_a_file_that_is_no_state_is_no_state(tmp_path: Path, content: str) -> None:
    state_path(tmp_path).write_text(content)
    assert read_state(tmp_path) is None


def test_settings_come_from_the_stack_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_HOME", str(tmp_path))
    assert Settings().broker.url is None
    write_state(tmp_path, state_of(myself()))
    settings = Settings()
    assert settings.broker.url
    assert settings.broker.url.get_secret_value() == "redis://:pw@127.0.0.1:20002/0"
    assert settings.objects.endpoint == "127.0.0.1:20003"
    monkeypatch.setenv("MUNIMENT_OBJECTS__ENDPOINT", "s3.example.org:443")
    assert Settings().objects.endpoint == "s3.example.org:443"


def test_credentials_are_made_once_and_kept_private(tmp_path: Path) -> None:
    first = load_or_create(tmp_path)
    assert load_or_create(tmp_path) == first
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600
    assert first.database_password not in repr(first)


def test_homes_have_different_credentials(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert load_or_create(tmp_path / "one") != load_or_create(tmp_path / "two")
