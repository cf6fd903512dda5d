"""The migrations create exactly the tables that the code works with, whoever runs them and however often."""

import os
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, text

from pipeline.adapters.database import MIGRATIONS, known_revisions, revisions, upgrade
from pipeline.adapters.tables import Base
from tests.migrations.conftest import plain

CATALOG = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, identity_generation
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace AND conrelid IS DISTINCT FROM to_regclass('alembic_version')
    """,
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'public' AND tablename <> 'alembic_version'
    """,
}
UPGRADE = "import os; from pipeline.adapters.database import upgrade; upgrade(os.environ['URL'])"


@pytest.fixture
def migrated(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def modelled(empty_database_url: str, migrated: Engine) -> Iterator[Engine]:
    """A database that the models created by themselves, after the functions that their defaults and indexes call."""
    engine = create_engine(empty_database_url)
    called = "('muniment_uuid7'::regproc), ('muniment_doubt'::regproc)"
    definitions = rows(migrated, f"SELECT pg_get_functiondef(name) FROM (VALUES {called}) AS called (name)")
    with engine.begin() as connection:
        for (definition,) in definitions:
            connection.exec_driver_sql(definition)
        Base.metadata.create_all(connection)
    yield engine
    engine.dispose()


def rows(engine: Engine, query: str) -> set[tuple]:
    with engine.connect() as connection:
        return {tuple(row) for row in connection.execute(text(query))}


def start_upgrade(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", UPGRADE], env={**os.environ, "URL": url}, stderr=subprocess.PIPE, text=True
    )


def test_alembic_finds_nothing_to_change(migrated: Engine) -> None:
    with migrated.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata) == []


@pytest.mark.parametrize("what", CATALOG)
def test_migrations_and_models_create_the_same(migrated: Engine, modelled: Engine, what: str) -> None:
    made = rows(migrated, CATALOG[what])
    assert made
    assert made == rows(modelled, CATALOG[what])


def test_an_empty_database_is_upgraded_to_the_revision_that_this_code_needs(empty_database_url: str) -> None:
    at, needed = revisions(empty_database_url)
    assert at is None
    assert needed in {path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py")}
    upgrade(empty_database_url)
    assert revisions(empty_database_url) == (needed, needed)


def test_the_revisions_are_read_as_alembic_reads_them() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS))
    assert known_revisions() == tuple(script.revision for script in scripts.walk_revisions())[::-1]


def test_upgrading_again_changes_nothing(database_url: str, migrated: Engine) -> None:
    everything = "SELECT oid, xmin::text, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    before = rows(migrated, everything)
    with migrated.begin() as connection:
        connection.execute(text("INSERT INTO job (source_uri) VALUES ('s3://box/1.pdf')"))
    upgrade(database_url)
    assert rows(migrated, everything) == before
    assert rows(migrated, "SELECT source_uri FROM job") == {("s3://box/1.pdf",)}


def test_two_upgrades_from_empty_at_once_both_succeed(empty_database_url: str) -> None:
    both = [start_upgrade(empty_database_url) for _ in range(2)]
    ended = [(upgrading.communicate()[1], upgrading.returncode) for upgrading in both]
    assert [code for _, code in ended] == [0, 0], ended
    at, needed = revisions(empty_database_url)
    assert at == needed


def test_generated_ids_are_uuids_of_version_7_in_the_order_of_time(database_url: str) -> None:
    clock = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    with psycopg.connect(plain(database_url)) as connection:
        made = connection.execute(f"SELECT {clock}, muniment_uuid7(), {clock} FROM generate_series(1, 2000)").fetchall()
    ids = [id_ for _, id_, _ in made]
    assert {(id_.version, id_.variant) for id_ in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == len(ids)
    # RFC 9562, section 5.7: the first 48 bits are milliseconds since 1970.
    assert all(before <= id_.int >> 80 <= after for before, id_, after in made)
