"""Jobs for an event loop that asks for some of them all the time: one kept connection, no thread and no transaction.

To hand a question to a thread, check a pooled connection and ask by it takes four times as long as to ask.
"""

import asyncio
from collections.abc import Sequence

import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy.dialects.postgresql import psycopg as dialects

from pipeline.adapters.database import driver_url, session_settings
from pipeline.adapters.submissions import FOUND, status_of
from pipeline.domain.document import JobId
from pipeline.domain.errors import ErrorCode, Transient
from pipeline.ports.submissions import JobStatus

_STATEMENT = str(FOUND.compile(dialect=dialects.dialect()))  # type: ignore[no-untyped-call] # SQLAlchemy's
_PATIENCE_S = 10.0


class JobReader:
    """Reads jobs as `PostgresSubmissions` does. Lives in one event loop."""

    def __init__(self, url: str, *, actor: str) -> None:
        """Args: url is SQLAlchemy's; nothing is opened yet."""
        self._url = url
        self._actor = actor
        self._connection: psycopg.AsyncConnection | None = None
        self._in_use = asyncio.Lock()

    async def find(self, job_ids: Sequence[JobId]) -> list[JobStatus]:
        """Return these jobs as they are now, without those that don't exist. Raises: Transient."""
        async with self._in_use:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    return await self._find(job_ids)
            except (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError) as error:
                await self.aclose()
                raise Transient(
                    ErrorCode.DATABASE_UNAVAILABLE, f"the database did not answer: {str(error) or 'it took too long'}"
                ) from error

    async def _find(self, job_ids: Sequence[JobId]) -> list[JobStatus]:
        if self._connection:
            try:
                return await self._ask(self._connection, job_ids)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                # It was lost since it was last used, maybe long ago; that says nothing of now.
                await self.aclose()
        self._connection = await psycopg.AsyncConnection.connect(
            driver_url(self._url), autocommit=True, **session_settings(self._actor)
        )
        return await self._ask(self._connection, job_ids)

    async def _ask(self, connection: psycopg.AsyncConnection, job_ids: Sequence[JobId]) -> list[JobStatus]:
        async with connection.cursor(row_factory=namedtuple_row) as cursor:
            await cursor.execute(_STATEMENT, {"ids": list(job_ids)})
            return [status_of(row) for row in await cursor.fetchall()]

    async def aclose(self) -> None:
        """Give the connection back; the next question opens another."""
        connection, self._connection = self._connection, None
        if connection:
            await connection.close()
