"""Runs migrations over one connection, under an advisory lock, so that processes starting together don't collide.

Jobs run on meanwhile. A migration that came to its tables one after another could meet a worker that came to them the
other way round, and one of the two would die of the deadlock; so all tables are locked before the first change, in
short attempts that let workers pass in between.
"""

import time

from alembic import context
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError

from pipeline.adapters.tables import Base
from pipeline.domain.errors import ErrorCode, Transient

_LOCK = 0x6D756E69  # "muni"
_ATTEMPTS = 60
_PAUSE_S = 0.5

# Below Postgres' `deadlock_timeout` of a second: where a worker and this wait for each other, this gives way first.
_PATIENCE = text("SET LOCAL lock_timeout = '500ms'")
_TABLES = text("""
    SELECT string_agg(quote_ident(tablename), ', ' ORDER BY tablename)
    FROM pg_tables WHERE schemaname = current_schema()
""")


def run() -> None:
    """Apply what is missing.

    Raises: Transient (`database_unavailable`) when something holds a table through all attempts, as a dump does.
    """
    engine = create_engine(context.config.attributes["url"])
    try:
        for _ in range(_ATTEMPTS):
            with engine.begin() as connection:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
                context.configure(connection=connection, target_metadata=Base.metadata, compare_server_default=True)
                if _is_current() or _lock_tables(connection):
                    return context.run_migrations()
            time.sleep(_PAUSE_S)
    finally:
        engine.dispose()
    raise Transient(
        ErrorCode.DATABASE_UNAVAILABLE,
        "the schema can't be changed: something holds a table, perhaps a dump; wait for its end, then run it again",
    )


def _is_current() -> bool:
    return set(context.get_context().get_current_heads()) == {context.get_head_revision()}


def _lock_tables(connection: Connection) -> bool:
    tables = connection.execute(_TABLES).scalar()
    try:
        with connection.begin_nested():
            connection.execute(_PATIENCE)
            if tables:
                connection.execute(text(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"))
            # What follows locks only what is locked already, or new.
            connection.execute(text("SET LOCAL lock_timeout = 0"))
    except OperationalError as error:
        if isinstance(error.orig, LockNotAvailable):
            return False
        raise
    return True


run()
