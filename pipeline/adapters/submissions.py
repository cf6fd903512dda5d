"""Jobs as those see them who submit and watch them; API, command line and rows alike."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Row, func, select
from sqlalchemy.dialects.postgresql import insert

from pipeline.adapters.database import transaction
from pipeline.adapters.passwords import keep_password
from pipeline.adapters.tables import Event, Job, Page
from pipeline.domain.document import JobId
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.serialisation import flag_from_json
from pipeline.domain.states import JobState
from pipeline.ports.submissions import EventRow, JobStatus, Submission


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
            "label": submission.label,
            "deadline": submission.deadline,
            "hours": submission.hours,
        }
        given = {name: value for name, value in values.items() if value is not None}
        statement = insert(Job).values(given).on_conflict_do_nothing(constraint="job_idempotency").returning(Job.id)
        with transaction(self._engine) as connection:
            job_id = connection.execute(statement).scalar_one_or_none()
            if job_id is not None:
                keep_password(connection, JobId(job_id), submission.password)
            else:
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

    def latest(
        self, limit: int, *, state: JobState | None = None, tenant: str | None = None, label: str | None = None
    ) -> list[JobStatus]:
        """Return the newest jobs, newest first."""
        statement = select(Job).order_by(Job.id.desc()).limit(limit)
        if state:
            statement = statement.where(Job.state == state)
        if tenant:
            statement = statement.where(Job.tenant == tenant)
        if label:
            statement = statement.where(Job.label == label)
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
        label=row.label,
        paused=row.paused,
        hours=row.hours,
        off_hours=row.off_hours,
        deadline=row.deadline,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )
