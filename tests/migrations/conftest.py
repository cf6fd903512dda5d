"""Databases without our schema, and logins without rights."""

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy.engine import make_url

from pipeline.embedded.services import Servers


@pytest.fixture
def empty_database_url(services: Servers, _on_database_server: Callable[[str], object]) -> Iterator[str]:
    """An empty database of the test's own, as a URL for SQLAlchemy."""
    assert services.database.url
    name = f"empty_{secrets.token_hex(8)}"
    _on_database_server(f"CREATE DATABASE {name} STRATEGY file_copy")
    yield make_url(services.database.url.get_secret_value()).set(database=name).render_as_string(hide_password=False)
    _on_database_server(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def owner(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to the test's migrated database as its owner; each statement is a transaction."""
    with psycopg.connect(plain(database_url), autocommit=True) as connection:
        yield connection


def plain(url: str) -> str:
    """Return a URL of SQLAlchemy's as libpq takes it."""
    return url.replace("+psycopg", "", 1)
