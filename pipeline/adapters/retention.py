"""What has expired, as the rows have it. A tenant's own ages go before those of the settings."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Interval,
    Select,
    and_,
    delete,
    exists,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)

from pipeline.adapters import known_pages
from pipeline.adapters.conditions import OPEN_JOB
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Device, Event, Job, Tenant
from pipeline.domain.document import JobId
from pipeline.domain.retention import Ages, Kept
from pipeline.ports.retention import Expired, Removed

# Not `clock_timestamp()`: only a stable bound is looked up in an index.
_NOW = func.statement_timestamp()
_ROWS_AT_ONCE = 500
_KNOWN_PAGES_AT_ONCE = 1000
_LETS_GO = (Kept.ORIGINALS, Kept.ROWS)

_KEEP = {
    Kept.ORIGINALS: Tenant.keep_originals,
    Kept.PAGE_IMAGES: Tenant.keep_page_images,
    Kept.SEGMENTS: Tenant.keep_segments,
    Kept.RESULTS: Tenant.keep_results,
    Kept.ROWS: Tenant.keep_rows,
}
_REMOVED = {
    Kept.ORIGINALS: Job.original_removed_at,
    Kept.PAGE_IMAGES: Job.page_images_removed_at,
    Kept.SEGMENTS: Job.segments_removed_at,
    Kept.RESULTS: Job.results_removed_at,
}
"""When it went; a row that has gone needs no mark."""


class PostgresRetention:
    """Retention over Postgres."""

    def __init__(
        self, engine: Engine, ages: Ages, *, devices_age: timedelta, known_pages_age: timedelta | None = None
    ) -> None:
        self._engine = engine
        self._ages = ages
        self._devices_age = devices_age
        self._known_pages_age = known_pages_age

    def expired(self, what: Kept, at_most: int) -> list[Expired]:
        """Return what is due, of each tenant what ended first."""
        job = (
            select(Job.id, Job.sha256, Job.original_removed_at, Job.finished_at)
            .where(Job.tenant == Tenant.name, self._is_due(what))
            .order_by(Job.finished_at)
            .limit(at_most)
            .correlate(Tenant)
            .lateral("due")
        )
        statement = select(Tenant.name.label("tenant"), job).join_from(Tenant, job, true()).limit(at_most)
        with transaction(self._engine) as connection:
            return [_expired(row, what) for row in connection.execute(statement)]

    def all_expired(self, what: Kept) -> Iterator[Expired]:
        """Yield all that is due and lock nothing, a few hundred rows in a transaction."""
        after: JobId | None = None
        while True:
            statement = (
                select(Job.id, Job.tenant, Job.sha256, Job.original_removed_at, Job.finished_at)
                .join(Tenant, Tenant.name == Job.tenant)
                .where(self._is_due(what), true() if after is None else Job.id > after)
                .order_by(Job.id)
                .limit(_ROWS_AT_ONCE)
            )
            with transaction(self._engine) as connection:
                rows = connection.execute(statement).all()
            for row in rows:
                yield _expired(row, what)
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1].id

    def still_held(self, originals: Collection[str]) -> set[str]:
        """Return those of the originals that would be held when all that is due were gone."""
        is_going = or_(self._is_due(Kept.ORIGINALS), self._is_due(Kept.ROWS))
        statement = (
            select(Job.sha256)
            .join(Tenant, Tenant.name == Job.tenant)
            .where(Job.sha256.in_(originals), Job.original_removed_at.is_(None), ~func.coalesce(is_going, false()))
        )
        with transaction(self._engine) as connection:
            return {str(sha256) for sha256 in connection.execute(statement).scalars()}

    @contextmanager
    def holding(self, expired: Expired) -> Iterator["_Hold | None"]:
        """Hold what is due; None where it no longer is, or somebody else holds it."""
        statement: Select[Any] = (
            select(Job.id)
            .join(Tenant, Tenant.name == Job.tenant)
            .where(Job.id == expired.job_id, self._is_due(expired.what))
            .with_for_update(of=Job, skip_locked=True)
        )
        with transaction(self._engine) as connection:
            held = connection.execute(statement).one_or_none()
            yield _Hold(connection, expired) if held else None

    def wanted(self, upload_keys: Collection[str]) -> set[str]:
        """Return those of the uploads that a job which has not ended still names."""
        if not upload_keys:
            return set()
        statement = select(Job.upload_key).where(Job.upload_key.in_(upload_keys), OPEN_JOB)
        with transaction(self._engine) as connection:
            return {str(key) for key in connection.execute(statement).scalars()}

    def forget_devices(self) -> int:
        """Remove the rows of devices that nobody has heard of for their age, unless they are asked to drain."""
        gone = and_(Device.updated_at < _NOW - self._devices_age, Device.drain_requested.is_(False))
        with transaction(self._engine) as connection:
            return connection.execute(delete(Device).where(gone)).rowcount

    def forget_known_pages(self) -> int:
        """Forget what some pages look like that were read longer ago than their age; return how many."""
        if self._known_pages_age is None:
            return 0
        with transaction(self._engine) as connection:
            return known_pages.forget_older(connection, self._known_pages_age, _KNOWN_PAGES_AT_ONCE)

    def _is_due(self, what: Kept) -> ColumnElement[bool]:
        # An age that is null in both places makes this unknown, and so not due.
        age = func.coalesce(_KEEP[what], literal(self._ages.of(what), Interval))
        is_past = and_(Job.finished_at.is_not(None), Job.finished_at < _NOW - age)
        if what is Kept.ROWS:
            return is_past
        is_there = _REMOVED[what].is_(None)
        return and_(is_past, is_there, Job.sha256.is_not(None)) if what is Kept.ORIGINALS else and_(is_past, is_there)


class _Hold:
    """Hold, within the transaction that has the job's row locked."""

    def __init__(self, connection: Connection, expired: Expired) -> None:
        self._connection = connection
        self._expired = expired

    @property
    def original_is_free(self) -> bool:
        sha256 = self._expired.sha256
        if sha256 is None:
            return False
        # A trigger takes the same lock for whoever gives a job this content.
        self._connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(sha256, 0))))
        held = exists().where(Job.sha256 == sha256, Job.original_removed_at.is_(None), Job.id != self._expired.job_id)
        return not self._connection.execute(select(held)).scalar_one()

    def done(self, removed: Removed) -> None:
        job_id, what = self._expired.job_id, self._expired.what
        if what is Kept.ROWS:
            # What remains is who submitted it, how it ended and that it went; the moves of its chunks go with them.
            self._connection.execute(delete(Event).where(Event.job_id == job_id, Event.chunk_id.is_not(None)))
            self._connection.execute(delete(Job).where(Job.id == job_id))
        else:
            self._connection.execute(update(Job).where(Job.id == job_id).values(_marks(what)))
        if what is Kept.SEGMENTS:
            known_pages.forget_of(self._connection, job_id)
        self._connection.execute(
            insert(Event).values(
                job_id=job_id,
                actor=func.coalesce(func.nullif(func.current_setting("application_name"), ""), func.session_user()),
                kind="job.expired",
                detail={"what": what, "objects": removed.objects, "bytes": removed.size_bytes},
            )
        )


def _marks(what: Kept) -> dict[Any, Any]:
    marks: dict[Any, Any] = {_REMOVED[what]: func.clock_timestamp()}
    # What names nothing is not asked for.
    return marks | ({Job.document_key: None, Job.result_keys: {}} if what is Kept.RESULTS else {})


def _expired(row: Any, what: Kept) -> Expired:
    lets_go = what in _LETS_GO and row.original_removed_at is None
    return Expired(
        job_id=JobId(row.id),
        tenant=row.tenant,
        what=what,
        finished_at=row.finished_at,
        sha256=row.sha256 if lets_go else None,
    )
