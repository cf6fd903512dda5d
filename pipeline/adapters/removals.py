"""Takes the rows of jobs away; their trail stays, and what is still to be removed from the store is written down."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import Engine, delete, exists, func, insert, select

from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Event, Job, Removal
from pipeline.domain.document import JobId
from pipeline.ports.removals import Removed


class PostgresRemovals:
    """Removals over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def remove(self, job_id: JobId) -> Removed | None:
        """Remove an ended job with its pages and chunks; None where it is not there, or has not ended."""
        statement = (
            delete(Job)
            .where(Job.id == job_id, Job.finished_at.is_not(None))
            .returning(Job.id.label("job_id"), Job.upload_key, Job.sha256, Job.state, Job.tenant)
        )
        with transaction(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
            if row is None:
                return None
            connection.execute(insert(Removal).values(job_id=row.job_id, upload_key=row.upload_key, sha256=row.sha256))
            # What remains is who submitted it, how it ended and who deleted it; the moves of its chunks go with them.
            connection.execute(delete(Event).where(Event.job_id == job_id, Event.chunk_id.is_not(None)))
            connection.execute(
                insert(Event).values(
                    job_id=job_id,
                    actor=func.coalesce(func.nullif(func.current_setting("application_name"), ""), func.session_user()),
                    kind="job.deleted",
                    detail={"from": row.state, "tenant": row.tenant},
                )
            )
        return _removed(row)

    def left(self, older_than: timedelta) -> list[Removed]:
        """Return what was removed that long ago and is not forgotten."""
        statement = select(Removal).where(Removal.removed_at < NOW - older_than).limit(100)
        with transaction(self._engine) as connection:
            return [_removed(row) for row in connection.execute(statement)]

    def forget(self, job_id: JobId) -> None:
        """Write off a removal."""
        with transaction(self._engine) as connection:
            connection.execute(delete(Removal).where(Removal.job_id == job_id))

    @contextmanager
    def unused(self, sha256: str) -> Iterator[bool]:
        """Say whether no job has the original of this content, and keep it so until the end.

        A trigger lets whoever is about to give a job this content wait meanwhile.
        """
        with transaction(self._engine) as connection:
            connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(sha256, 0))))
            held = exists().where(Job.sha256 == sha256, Job.original_removed_at.is_(None))
            yield not connection.execute(select(held)).scalar_one()


def _removed(row: Any) -> Removed:
    return Removed(job_id=JobId(row.job_id), upload_key=row.upload_key, sha256=row.sha256)
