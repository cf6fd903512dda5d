"""Runs migrations over one connection, under an advisory lock, so that processes starting together don't collide."""

from alembic import context
from sqlalchemy import create_engine, text

from pipeline.adapters.tables import Base

_LOCK = 0x6D756E69  # "muni"


def run() -> None:
    """Apply what is missing."""
    engine = create_engine(context.config.attributes["url"])
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            context.configure(connection=connection, target_metadata=Base.metadata, compare_server_default=True)
            context.run_migrations()
    finally:
        engine.dispose()


run()
