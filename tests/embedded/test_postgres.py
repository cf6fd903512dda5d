"""Postgres as whoever may run it."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pipeline.embedded.account import WhenRoot
from pipeline.embedded.binaries import major_version, postgres_programs
from pipeline.embedded.errors import ServerMissing, StackError
from pipeline.embedded.ports import PortPicker
from pipeline.embedded.postgres import database_url, postgres_spec
from pipeline.embedded.supervisor import ProcessSpec, Supervisor

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others can enter; those of pytest can't be."""
    folder = Path(tempfile.mkdtemp(prefix="muniment-test-"))
    yield folder / "open"
    shutil.rmtree(folder)


def run(logs: Path, spec: ProcessSpec, port: int, statement: str) -> object:
    async def scenario() -> object:
        supervisor = Supervisor(logs=logs)
        await supervisor.start(spec)
        try:
            url = database_url(port=port, password="pw", name="postgres").replace("+psycopg", "")
            with psycopg.connect(url, autocommit=True) as connection:
                cursor = connection.execute(statement)
                row = cursor.fetchone() if cursor.description else None
                return row[0] if row else None
        finally:
            await supervisor.stop()

    return asyncio.run(scenario())


@needs_root
def test_root_without_namespaces_runs_it_as_nobody_and_keeps_to_that(tmp_path: Path, open_folder: Path) -> None:
    open_folder.parent.chmod(0o711)
    without = WhenRoot(namespaces=False, open_folder=open_folder)
    port = PortPicker(tmp_path).pick()
    first = postgres_spec(tmp_path / "pg", port=port, password="pw", fsync=False, when_root=without)
    assert run(tmp_path, first, port, "CREATE TABLE kept AS SELECT 42 AS answer") is None
    assert (tmp_path / "pg" / "data").stat().st_uid == 65534
    # The folder's owner decides, also where namespaces would work again.
    again = postgres_spec(
        tmp_path / "pg", port=port, password="pw", fsync=False, when_root=WhenRoot(open_folder=open_folder)
    )
    assert again.account.user == 65534
    assert run(tmp_path, again, port, "SELECT answer FROM kept") == 42


@needs_root
def test_root_does_not_touch_data_made_in_a_namespace_where_there_are_none(tmp_path: Path, open_folder: Path) -> None:
    data = tmp_path / "pg" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text(major_version(postgres_programs(None)) or "")
    with pytest.raises(StackError, match="namespaces are not allowed"):
        postgres_spec(
            tmp_path / "pg", port=1, password="pw", when_root=WhenRoot(namespaces=False, open_folder=open_folder)
        )


def test_data_is_only_opened_by_its_version_of_the_server() -> None:
    newest = major_version(postgres_programs(None))
    assert newest
    assert major_version(postgres_programs(newest)) == newest
    with pytest.raises(ServerMissing, match="made by Postgres 8"):
        postgres_programs("8")


def test_an_interrupted_first_start_leaves_no_data_folder_behind(tmp_path: Path) -> None:
    unfinished = tmp_path / "pg" / "data.new"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    port = PortPicker(tmp_path).pick()
    assert run(tmp_path, postgres_spec(tmp_path / "pg", port=port, password="pw", fsync=False), port, "SELECT 1") == 1
    assert not unfinished.exists()
