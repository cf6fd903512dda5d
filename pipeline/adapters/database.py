"""Connections to Postgres and the schema's revision."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, func, select, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from pipeline.domain.errors import ErrorCode, Transient

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"


def connect(url: str, *, actor: str, pool_size: int = 2) -> Engine:
    """Return an engine whose connections name their process in `application_name`, which events record as the actor.

    Nothing is opened yet. Build it after a fork, never before.
    """
    return create_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        pool_timeout=30,
        # An error's message would show what a statement was given, a document's password among it.
        hide_parameters=True,
        connect_args=session_settings(actor),
    )


def session_settings(actor: str) -> dict[str, Any]:
    """Return how the driver is to open a connection."""
    return {
        "application_name": actor[:63],
        "connect_timeout": 5,
        # A dead server must not hold a worker for the two hours of TCP's default.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


def driver_url(url: str) -> str:
    """Return the driver's own form of SQLAlchemy's URL."""
    return url.replace("+psycopg", "", 1)


def acting(engine: Engine, actor: str) -> Engine:
    """Return the same pool, whose transactions are recorded as this actor's."""
    return engine.execution_options(actor=actor[:63])


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction; committed at the end, rolled back on any error.

    Raises: Transient (`database_unavailable`).
    """
    with _answering(), engine.begin() as connection:
        if actor := engine.get_execution_options().get("actor"):
            connection.execute(select(func.set_config("application_name", actor, True)))
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Open a connection whose statements each see what is there when they begin, without a transaction around them.

    For what is read very often by one statement: to begin and to commit takes as long as to read.
    Raises: Transient (`database_unavailable`).
    """
    with _answering(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except (OperationalError, PoolTimeoutError) as error:
        raise Transient(
            ErrorCode.DATABASE_UNAVAILABLE, f"the database did not answer: {getattr(error, 'orig', error)}"
        ) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise Transient(ErrorCode.DATABASE_UNAVAILABLE, f"the database went away: {error.orig}") from error
        raise


# Alembic is imported where it is used: every process connects, few of them look at the schema.
def _config(url: str) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    return config


def upgrade(url: str) -> None:
    """Bring the schema to the newest revision; safe to call from several processes at once and again."""
    from alembic.command import upgrade as upgrade_to

    upgrade_to(_config(url), "head")


# What every process asks at its start is answered without Alembic, from the heads of its files.
_REVISION = re.compile(r'^(revision|down_revision) = "(\w+)"$', re.MULTILINE)


def known_revisions(folder: Path = MIGRATIONS / "versions") -> tuple[str, ...]:
    """Return the revisions of this code's migrations, the newest last."""
    heads = [dict(_REVISION.findall(path.read_text())) for path in folder.glob("[0-9]*.py")]
    following = {head.get("down_revision"): head["revision"] for head in heads}
    known: list[str] = []
    after: str | None = None
    while after := following.get(after):
        known.append(after)
    return tuple(known)


def revisions(url: str) -> tuple[str | None, str]:
    """Return the revision that the database is at and the one that this code needs."""
    engine = create_engine(url)
    try:
        with transaction(engine) as connection:
            is_there = connection.execute(text("SELECT to_regclass('alembic_version') IS NOT NULL")).scalar_one()
            at = connection.execute(text("SELECT version_num FROM alembic_version")).scalar() if is_there else None
            return at, known_revisions()[-1]
    finally:
        engine.dispose()
