"""Control over Postgres. Each ask is a plain update of rows that anyone may make; triggers and sweeps do the rest."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Engine, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from pipeline.adapters.conditions import OPEN_JOB
from pipeline.adapters.database import transaction
from pipeline.adapters.retries import begin_again
from pipeline.adapters.tables import Batch, Chunk, Job, Tenant
from pipeline.domain.document import JobId
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.retention import Ages, Kept
from pipeline.ports.control import Again, Change, Target, TenantStatus

_ANY_HOURS = "any"
_NOT_ACCEPTED = "22"
"""SQLSTATE class of data that a column or function does not take: a zone that does not exist, for one."""
_CHECK_FAILED = "23514"


class PostgresControl:
    """Control over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def cancel(self, target: Target) -> list[JobId]:
        """Ask for jobs to be cancelled; return those that had not ended. Asking twice is safe."""
        with transaction(self._engine) as connection:
            return _update_jobs(connection, target, {"cancel_requested": True})

    def change(self, target: Target, change: Change) -> list[JobId]:
        """Change open jobs and return them."""
        values = _values(change)
        try:
            with transaction(self._engine) as connection:
                if target.job_ids:
                    return _update_jobs(connection, target, values)
                if target.label:
                    return _update_batch(connection, target, values)
                return _update_tenant(connection, target, values)
        except DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None) or ""
            if state.startswith(_NOT_ACCEPTED) or state == _CHECK_FAILED:
                raise Rejected(
                    ErrorCode.INVALID_OPTIONS,
                    f"hours look like 20:00-06:00 or 20:00-06:00 Asia/Shanghai, not {change.hours}",
                ) from error
            raise

    def retry(self, job_ids: Sequence[JobId], again: Again) -> list[JobId]:
        """Begin ended jobs again and return them; a job without anything to do again is left out."""
        begun: list[JobId] = []
        for job_id in job_ids:
            with transaction(self._engine) as connection:
                if begin_again(connection, job_id, again):
                    begun.append(job_id)
        return begun

    def job_of(self, chunk_id: UUID) -> JobId | None:
        """Return whose chunk it is."""
        with transaction(self._engine) as connection:
            job_id = connection.execute(select(Chunk.job_id).where(Chunk.id == chunk_id)).scalar_one_or_none()
        return None if job_id is None else JobId(job_id)

    def tenants(self) -> list[TenantStatus]:
        """Return all tenants, by name."""
        open_jobs = select(func.count()).where(Job.tenant == Tenant.name, OPEN_JOB).scalar_subquery()
        with transaction(self._engine) as connection:
            rows = connection.execute(select(Tenant, open_jobs.label("open_jobs")).order_by(Tenant.name)).all()
        return [
            TenantStatus(
                name=row.name,
                weight=row.weight,
                paused=row.paused,
                queued_pages=row.queued_pages,
                max_queued_pages=row.max_queued_pages,
                open_jobs=row.open_jobs,
                ages=Ages(**{what.value: getattr(row, f"keep_{what}") for what in Kept}),
            )
            for row in rows
        ]

    def set_tenant(
        self,
        name: str,
        *,
        weight: float | None = None,
        max_queued_pages: int | None = None,
        ages: Mapping[Kept, timedelta | None] | None = None,
    ) -> None:
        """Set what is given of a tenant, which need not have jobs yet; an age of None leaves it to the settings."""
        given = {"weight": weight, "max_queued_pages": max_queued_pages}
        values: dict[str, Any] = {column: value for column, value in given.items() if value is not None}
        values |= {f"keep_{what}": age for what, age in (ages or {}).items()}
        with transaction(self._engine) as connection:
            _upsert(connection, Tenant, {"name": name}, values)


def _values(change: Change) -> dict[str, Any]:
    given = {
        "paused": change.paused,
        "priority": change.priority,
        "deadline": change.deadline,
        "hours": change.hours,
    }
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return values | ({"hours": None} if change.hours == _ANY_HOURS else {})


def _update_batch(connection: Connection, target: Target, values: dict[str, Any]) -> list[JobId]:
    _upsert(connection, Batch, {"tenant": target.tenant, "label": target.label}, values)
    return [JobId(job_id) for job_id in connection.execute(select(Job.id).where(*_named(target))).scalars()]


def _update_tenant(connection: Connection, target: Target, values: dict[str, Any]) -> list[JobId]:
    values = dict(values)
    if "paused" in values:
        _upsert(connection, Tenant, {"name": target.tenant}, {"paused": values.pop("paused")})
    if values:
        return _update_jobs(connection, target, values)
    return [JobId(job_id) for job_id in connection.execute(select(Job.id).where(*_named(target))).scalars()]


def _update_jobs(connection: Connection, target: Target, values: dict[str, Any]) -> list[JobId]:
    statement = update(Job).where(*_named(target)).values(values).returning(Job.id)
    return [JobId(job_id) for job_id in connection.execute(statement).scalars()]


def _named(target: Target) -> tuple[ColumnElement[bool], ...]:
    if target.job_ids:
        return (Job.id.in_(target.job_ids), OPEN_JOB)
    if target.label:
        return (Job.tenant == target.tenant, Job.label == target.label, Job.label.is_not(None), OPEN_JOB)
    return (Job.tenant == target.tenant, OPEN_JOB)


def _upsert(connection: Connection, table: Any, key: dict[str, Any], values: dict[str, Any]) -> None:
    # In two statements: a row must be there to be changed, for the change to reach the jobs.
    connection.execute(insert(table).values(key).on_conflict_do_nothing())
    if values:
        connection.execute(update(table).filter_by(**key).values(values))
