"""Jobs as those see them who submit, watch and stop them; API, command line and rows alike."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.adapters.database import transaction
from pipeline.adapters.jobs import NOW
from pipeline.adapters.tables import Chunk, Event, Job, Page
from pipeline.domain.document import JobId
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.serialisation import flag_from_json
from pipeline.domain.states import ChunkState, JobState
from pipeline.ports.submissions import EventRow, JobStatus, Submission

_OPEN = [str(state) for state in JobState if not state.is_terminal]


class PostgresSubmissions:
    """Submissions over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def insert(self, submission: Submission) -> JobId:
        """Insert the job's row and return its id; the same idempotency key again returns the first job."""
        values: dict[str, Any] = {
            "tenant": submission.tenant,
            "source_uri": submission.source_uri,
            "upload_key": submission.upload_key,
            "source_name": submission.source_name,
            "options": dict(submission.options),
            "priority": submission.priority,
            "idempotency_key": submission.idempotency_key,
        }
        given = {name: value for name, value in values.items() if value is not None}
        statement = insert(Job).values(given).on_conflict_do_nothing(constraint="job_idempotency").returning(Job.id)
        with transaction(self._engine) as connection:
            job_id = connection.execute(statement).scalar_one_or_none()
            if job_id is None:
                job_id = connection.execute(
                    select(Job.id).where(
                        Job.tenant == submission.tenant, Job.idempotency_key == submission.idempotency_key
                    )
                ).scalar_one()
        return JobId(job_id)

    def find(self, job_ids: Sequence[JobId]) -> list[JobStatus]:
        """Return these jobs as they are now, in the order given, without those that don't exist."""
        with transaction(self._engine) as connection:
            rows = {row.id: row for row in connection.execute(select(Job).where(Job.id.in_(job_ids)))}
            outcomes = _outcomes(connection, list(rows))
        return [_status(rows[job_id], outcomes.get(job_id, {})) for job_id in job_ids if job_id in rows]

    def latest(self, limit: int, state: JobState | None = None) -> list[JobStatus]:
        """Return the newest jobs, newest first."""
        statement = select(Job).order_by(Job.created_at.desc()).limit(limit)
        if state:
            statement = statement.where(Job.state == state)
        with transaction(self._engine) as connection:
            rows = connection.execute(statement).all()
            outcomes = _outcomes(connection, [row.id for row in rows])
        return [_status(row, outcomes.get(row.id, {})) for row in rows]

    def events(self, job_id: JobId, limit: int) -> list[EventRow]:
        """Return the job's latest events, oldest first."""
        statement = select(Event).where(Event.job_id == job_id).order_by(Event.id.desc()).limit(limit)
        with transaction(self._engine) as connection:
            rows = connection.execute(statement).all()
        return [EventRow(at=row.at, actor=row.actor, kind=row.kind, detail=row.detail) for row in reversed(rows)]

    def cancel(self, job_ids: Sequence[JobId]) -> list[JobId]:
        """Ask for the jobs to be cancelled; return those that had not ended. Asking twice is safe."""
        statement = (
            update(Job).where(Job.id.in_(job_ids), Job.state.in_(_OPEN)).values(cancel_requested=True).returning(Job.id)
        )
        with transaction(self._engine) as connection:
            return [JobId(job_id) for job_id in connection.execute(statement).scalars()]

    def retry(self, job_ids: Sequence[JobId]) -> list[JobId]:
        """Begin ended jobs again and return them: all of it where no page has a result, else the pages without one.

        A job that succeeded has nothing to be retried.
        """
        again = [JobState.PARTIAL, JobState.FAILED, JobState.REJECTED, JobState.CANCELLED]
        begun: list[JobId] = []
        for job_id in job_ids:
            with transaction(self._engine) as connection:
                row = connection.execute(
                    select(Job).where(Job.id == job_id, Job.state.in_(again)).with_for_update()
                ).one_or_none()
                if row is not None:
                    _begin_again(connection, row)
                    begun.append(job_id)
        return begun


def _begin_again(connection: Connection, job: Row[Any]) -> None:
    fresh = {
        "attempt": job.attempt + 1,
        "cancel_requested": False,
        "failures": 0,
        "lost": 0,
        "dispatched_at": None,
        "not_before": None,
        "finished_at": None,
        "error_code": None,
        "error_detail": None,
        "deadline": None,
        "document_key": None,
        "result_keys": {},
    }
    has_results = connection.execute(
        select(Page.number).where(Page.job_id == job.id, Page.segment_key.is_not(None)).limit(1)
    ).one_or_none()
    if has_results is None:
        connection.execute(delete(Page).where(Page.job_id == job.id))
        connection.execute(delete(Chunk).where(Chunk.job_id == job.id))
        connection.execute(
            update(Job)
            .where(Job.id == job.id)
            .values(**fresh, state=JobState.SUBMITTED, page_count=None, chunks_total=None, chunks_remaining=None)
        )
        return
    again = _unfinished_chunks(connection, job)
    connection.execute(
        update(Job)
        .where(Job.id == job.id)
        .values(
            **fresh,
            state=JobState.RUNNING if again else JobState.MERGING,
            chunks_remaining=len(again),
        )
    )


def _unfinished_chunks(connection: Connection, job: Row[Any]) -> list[Any]:
    """Clear the outcomes of failed pages and make ready again every chunk that lacks pages."""
    connection.execute(
        update(Page)
        .where(Page.job_id == job.id, Page.outcome == PageOutcome.FAILED)
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
            .where(Chunk.job_id == job.id, Chunk.state != ChunkState.SPLIT, lacks_pages)
            .values(
                state=ChunkState.READY,
                failures=0,
                lost=0,
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


def _outcomes(connection: Connection, job_ids: Sequence[Any]) -> dict[JobId, dict[PageOutcome, int]]:
    statement = (
        select(Page.job_id, Page.outcome, func.count())
        .where(Page.job_id.in_(job_ids), Page.outcome.is_not(None))
        .group_by(Page.job_id, Page.outcome)
    )
    counted: dict[JobId, dict[PageOutcome, int]] = {}
    for job_id, outcome, count in connection.execute(statement):
        counted.setdefault(JobId(job_id), {})[PageOutcome(str(outcome))] = count
    return counted


def _status(row: Row[Any], outcomes: Mapping[PageOutcome, int]) -> JobStatus:
    return JobStatus(
        job_id=row.id,
        tenant=row.tenant,
        source=row.source_uri or row.source_name,
        source_name=row.source_name,
        state=JobState(row.state),
        priority=row.priority,
        page_count=row.page_count,
        outcomes=dict(outcomes),
        flags=tuple(flag_from_json(flag) for flag in row.flags),
        result_keys=row.result_keys,
        error_code=row.error_code,
        error_detail=row.error_detail,
        cancel_requested=row.cancel_requested,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )
