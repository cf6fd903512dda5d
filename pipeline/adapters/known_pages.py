"""Pages that were read, by what they look like; a tenant finds its own alone."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection, delete, func, select, true, tuple_
from sqlalchemy.dialects.postgresql import insert

from pipeline.adapters.tables import Job, Page
from pipeline.adapters.tables import KnownPage as Row
from pipeline.domain.document import JobId
from pipeline.ports.chunks import KnownPage, PageEntry

# Not `clock_timestamp()`: only a stable bound is looked up in an index.
_NOW = func.statement_timestamp()


def find(connection: Connection, job_id: JobId, digest: str, known_for: timedelta | None) -> KnownPage | None:
    """Return a page that looks like this, of the tenant of a job, that was read no longer ago and is still there."""
    statement = (
        select(Row.job_id, Row.number, Page.segment_key)
        .join(Page, (Page.job_id == Row.job_id) & (Page.number == Row.number))
        .join(Job, Job.id == Row.job_id)
        .where(
            Row.tenant == select(Job.tenant).where(Job.id == job_id).scalar_subquery(),
            Row.digest == digest,
            true() if known_for is None else Row.read_at > _NOW - known_for,
            Page.segment_key.is_not(None),
            Job.segments_removed_at.is_(None),
        )
    )
    row = connection.execute(statement).one_or_none()
    return row and KnownPage(job_id=row.job_id, number=row.number, segment_key=row.segment_key)


def enter(connection: Connection, job_id: JobId, pages: Sequence[PageEntry]) -> None:
    """Enter pages that have just been read; of several that look alike the last one stays known."""
    numbers = {page.digest: page.number for page in pages if page.digest}
    if not numbers:
        return
    tenant = connection.execute(select(Job.tenant).where(Job.id == job_id)).scalar_one()
    # In one order for everybody, so that no two transactions wait for each other.
    rows = [
        {"tenant": tenant, "digest": digest, "job_id": job_id, "number": number}
        for digest, number in sorted(numbers.items())
    ]
    statement = insert(Row).values(rows)
    read_again = {"job_id": statement.excluded.job_id, "number": statement.excluded.number, "read_at": _NOW}
    connection.execute(statement.on_conflict_do_update(index_elements=[Row.tenant, Row.digest], set_=read_again))


def forget_of(connection: Connection, job_id: JobId) -> None:
    """Forget the pages of a job whose text goes."""
    connection.execute(delete(Row).where(Row.job_id == job_id))


def forget_older(connection: Connection, age: timedelta, at_most: int) -> int:
    """Forget some of what was read longer ago; return how many pages."""
    old = select(Row.tenant, Row.digest).where(Row.read_at < _NOW - age).limit(at_most)
    unused = old.with_for_update(skip_locked=True)
    return connection.execute(delete(Row).where(tuple_(Row.tenant, Row.digest).in_(unused))).rowcount
