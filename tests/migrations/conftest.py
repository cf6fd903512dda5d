"""Connections to the test's database, as its owner."""

from collections.abc import Iterator

import psycopg
import pytest


@pytest.fixture
def owner(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to the test's migrated database as its owner; each statement is a transaction."""
    with psycopg.connect(plain(database_url), autocommit=True) as connection:
        yield connection


def plain(url: str) -> str:
    """Return a URL of SQLAlchemy's as libpq takes it."""
    return url.replace("+psycopg", "", 1)
