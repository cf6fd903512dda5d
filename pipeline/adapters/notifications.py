"""Which jobs have moved, as Postgres tells it: one connection for each process, however many listen in it."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import psycopg
import structlog

from pipeline.adapters.database import driver_url, session_settings
from pipeline.domain.document import JobId

log = structlog.get_logger()
_CHANNEL = "muniment_job"
_PAUSE_S = 1.0


async def listen(url: str, tell: Callable[[JobId | None], None]) -> None:
    """Tell of each job that moved, until cancelled; of None when something may have been missed.

    Args: url is SQLAlchemy's; the connection is opened again whenever it is lost.
    """
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(
                driver_url(url), autocommit=True, **session_settings("muniment api")
            )
            async with connection:
                await connection.execute(f"LISTEN {_CHANNEL}")
                tell(None)
                async for notice in connection.notifies():
                    tell(JobId(UUID(notice.payload)))
        except psycopg.Error as error:
            log.warning("notifications_lost", detail=type(error).__name__)
        await asyncio.sleep(_PAUSE_S)
