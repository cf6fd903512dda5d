"""What an upgrade says of itself before it begins, and when it does not begin."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from click.testing import CliRunner

from pipeline.adapters.database import MIGRATIONS, known_revisions, revisions, upgrade
from pipeline.adapters.upgrades import Connected, Migration, Upgrade, migrations, upgrade_of
from pipeline.cli import cli
from tests.migrations.conftest import plain
from tests.waiting import eventually

SAFE = Migration(revision="8", summary="A column.", old_processes_may_run=True)
UNSAFE = Migration(revision="9", summary="Without that column.", old_processes_may_run=False)
API = Connected(name="muniment api", open_for=timedelta(0))
DUMP = Connected(name="pg_dump", open_for=timedelta(minutes=5))


def muniment(environment, *arguments):
    command = [sys.executable, "-m", "pipeline.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def of(*pending, connected=()):
    return Upgrade(at="7", migrations=pending, connected=connected)


def test_every_migration_says_whether_processes_of_the_version_before_may_run():
    assert tuple(migrations()) == known_revisions()
    assert all(migration.summary.endswith(".") for migration in migrations().values())


def test_what_stands_in_an_upgrade_s_way():
    assert of(connected=[API, DUMP]).hindrance is None
    assert of(SAFE, connected=[API]).hindrance is None
    assert of(SAFE, UNSAFE).hindrance is None
    assert "pg_dump" in of(SAFE, connected=[API, DUMP]).hindrance
    refused = of(SAFE, UNSAFE, connected=[API]).hindrance
    assert "revision 9 breaks" in refused
    assert "muniment api" in refused


@pytest.fixture
def next_version(tmp_path):
    """The migrations of a version that has one more."""
    folder = tmp_path / "versions"
    folder.mkdir()
    for path in (MIGRATIONS / "versions").glob("[0-9]*.py"):
        (folder / path.name).write_text(path.read_text())
    (folder / "9999_less.py").write_text(
        f'"""A column less."""\n\nrevision = "9999"\ndown_revision = "{known_revisions()[-1]}"\n'
        "old_processes_may_run = False\n"
    )
    return folder


def test_who_is_connected_is_named_by_what_it_calls_itself(database_url, next_version, connected):
    assert [migration.revision for migration in upgrade_of(database_url, next_version).migrations] == ["9999"]
    with connected("a worker of the version before"):
        ahead = upgrade_of(database_url, next_version)
        assert [each.name for each in ahead.connected] == ["a worker of the version before"]
        assert "a worker of the version before" in ahead.hindrance
    # Its backend ends a moment after its connection.
    eventually(lambda: not upgrade_of(database_url, next_version).connected)
    assert upgrade_of(database_url, next_version).hindrance is None


@pytest.fixture
def connected(database_url):
    import psycopg

    return lambda name: psycopg.connect(plain(database_url), application_name=name)


def test_the_plan_names_what_is_to_come_and_changes_nothing(empty_database_url):
    environment = {**os.environ, "MUNIMENT_DATABASE__URL": empty_database_url}
    said = muniment(environment, "db", "plan")
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(f"the database is at revision none; {len(known_revisions())} to come\n0001  ")
    assert muniment(environment, "db", "plan").stdout == said.stdout
    upgrade(empty_database_url)
    assert "0 to come" in muniment(environment, "db", "plan").stdout


@pytest.mark.parametrize("command", [("db", "upgrade"), ("prepare",)])
def test_nothing_is_changed_while_something_stands_in_the_way(empty_database_url, environment, monkeypatch, command):
    for name, value in {**environment, "MUNIMENT_DATABASE__URL": empty_database_url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pipeline.adapters.upgrades.upgrade_of", lambda url: of(SAFE, connected=[DUMP]))
    refused = CliRunner().invoke(cli, command)
    assert (refused.exit_code, "nothing was changed" in refused.stderr) == (1, True)
    assert revisions(empty_database_url)[0] is None
    assert CliRunner().invoke(cli, [*command, "--anyway"]).exit_code == 0
    assert revisions(empty_database_url)[0] == known_revisions()[-1]
