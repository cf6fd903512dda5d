"""Beginning an ended job again: all of it, or the pages that it lacks; what is done stays done."""

from typing import Any

from sqlalchemy import Connection, Row, delete, exists, select, update

from pipeline.adapters.conditions import NOW
from pipeline.adapters.passwords import keep_password
from pipeline.adapters.tables import Chunk, Job, Page
from pipeline.domain.document import JobId
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.options import parse_options
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import BEGINS_AGAIN, ChunkState, JobState
from pipeline.ports.control import Again

_UNPLANNED = {
    "page_count": None,
    "lane": None,
    "is_short": False,
    "chunks_total": None,
    "chunks_remaining": None,
}


def begin_again(connection: Connection, job_id: JobId, again: Again) -> bool:
    """Begin an ended job again, if there is something to do; whether there was.

    Raises: Rejected (`invalid_options`), if it would have options that a job can't have.
    """
    ended = [str(state) for state in BEGINS_AGAIN]
    job = connection.execute(select(Job).where(Job.id == job_id, Job.state.in_(ended)).with_for_update()).one_or_none()
    if job is None:
        return False
    parse_options(job.options | dict(again.options))
    if again.from_the_beginning or not _has_results(connection, job):
        if job.original_removed_at is not None and job.source_uri is None:
            # There is no beginning to go back to, and what is kept of it would be lost.
            return False
        _clear(connection, job)
        _write(connection, job, JobState.SUBMITTED, options=job.options | dict(again.options), **_UNPLANNED)
        keep_password(connection, job_id, again.password)
        return True
    if "pages" in again.options:
        raise Rejected(ErrorCode.INVALID_OPTIONS, "other pages are another beginning: ask for all pages again")
    chunks = _reopened(connection, job, again)
    if chunks:
        _write(connection, job, JobState.RUNNING, chunks_remaining=len(chunks))
        keep_password(connection, job_id, again.password)
    elif not again.chunk_ids and JobState.MERGING in BEGINS_AGAIN[JobState(job.state)]:
        # All its pages are done; what failed was to bind, to write or to deliver them.
        _write(connection, job, JobState.MERGING, chunks_remaining=0)
    else:
        return False
    return True


def _write(connection: Connection, job: Row[Any], state: JobState, **values: Any) -> None:
    fresh = {
        "attempt": job.attempt + 1,
        "cancel_requested": False,
        "failures": 0,
        "lost": 0,
        "waits": 0,
        "begun_at": NOW,
        "dispatched_at": None,
        "not_before": None,
        "finished_at": None,
        "error_code": None,
        "error_detail": None,
        "deadline": None,
        "document_key": None,
        "result_keys": {},
        "original_removed_at": None,
        "page_images_removed_at": None,
        "segments_removed_at": None,
        "results_removed_at": None,
    }
    if state not in BEGINS_AGAIN[JobState(job.state)]:
        raise ValueError(f"no beginning again from {job.state} to {state}")
    connection.execute(update(Job).where(Job.id == job.id).values(fresh | values | {"state": state}))


def _has_results(connection: Connection, job: Row[Any]) -> bool:
    if job.segments_removed_at is not None:
        return False
    some = select(Page.number).where(Page.job_id == job.id, Page.segment_key.is_not(None)).limit(1)
    return connection.execute(some).one_or_none() is not None


def _clear(connection: Connection, job: Row[Any]) -> None:
    connection.execute(delete(Page).where(Page.job_id == job.id))
    connection.execute(delete(Chunk).where(Chunk.job_id == job.id))


def _reopened(connection: Connection, job: Row[Any], again: Again) -> list[Any]:
    """Clear the outcomes of failed pages and make ready again every chunk that lacks pages; return these."""
    meant = (Chunk.id.in_(again.chunk_ids),) if again.chunk_ids else ()
    within = exists().where(
        Chunk.job_id == Page.job_id,
        Page.number.between(Chunk.first_page, Chunk.last_page),
        Chunk.state != ChunkState.SPLIT,
        *meant,
    )
    connection.execute(
        update(Page)
        .where(Page.job_id == job.id, Page.outcome == PageOutcome.FAILED, within)
        .values(outcome=None, segment_key=None, error_code=None, error_detail=None, attempt=None)
    )
    lacks_pages = (
        select(Page.number)
        .where(
            Page.job_id == Chunk.job_id,
            Page.number.between(Chunk.first_page, Chunk.last_page),
            Page.outcome.is_(None),
        )
        .exists()
    )
    return list(
        connection.execute(
            update(Chunk)
            .where(Chunk.job_id == job.id, Chunk.state != ChunkState.SPLIT, lacks_pages, *meant)
            .values(
                state=ChunkState.READY,
                failures=0,
                lost=0,
                waits=0,
                options=dict(again.options) or None,
                misfit=None,
                lease_owner=None,
                lease_until=None,
                dispatched_at=None,
                not_before=NOW,
                error_code=None,
                error_detail=None,
            )
            .returning(Chunk.id)
        ).scalars()
    )
