"""Jobs as those see them who submit and watch them; API, command line and rows alike."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Connection, Engine, Row, Uuid, bindparam, func, select
from sqlalchemy.dialects.postgresql import insert

from pipeline.adapters.database import reading, transaction
from pipeline.adapters.passwords import keep_password
from pipeline.adapters.tables import Event, Job, Page
from pipeline.domain.document import JobId
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.serialisation import flag_from_json
from pipeline.domain.states import JobState
from pipeline.domain.webhooks import WebhookEvent
from pipeline.ports.submissions import EVERYTHING, Entered, EventRow, JobFilter, JobStatus, Submission

_ENDED = (
    select(Page.outcome, func.count().label("pages"))
    .where(Page.job_id == Job.id, Page.outcome.is_not(None))
    .group_by(Page.outcome)
    .correlate(Job)
    .subquery()
)
OUTCOMES = select(func.jsonb_object_agg(_ENDED.c.outcome, _ENDED.c.pages)).scalar_subquery().label("outcomes")
"""How many pages of a job have ended as what, beside columns of the job; `outcomes_of` reads it."""

# Put together once: asked for more often than anything else. One statement, so that all of an answer is of one moment.
_STATUS = select(Job, OUTCOMES)
FOUND = _STATUS.where(Job.id == func.any(bindparam("ids", type_=ARRAY(Uuid()))))


class PostgresSubmissions:
    """Submissions over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def insert(self, submission: Submission) -> JobId:
        """Insert the job's row and return its id; the same idempotency key again returns the first job."""
        return self.enter([submission])[0].job_id

    def enter(self, submissions: Sequence[Submission]) -> list[Entered]:
        """Do the same for several, all or none of them, and say which are new."""
        with transaction(self._engine) as connection:
            return [_enter(connection, submission) for submission in submissions]

    def find(self, job_ids: Sequence[JobId], *, tenant: str | None = None) -> list[JobStatus]:
        """Return these jobs as they are now, in the order given, without those that don't exist."""
        with reading(self._engine) as connection:
            found = connection.execute(FOUND, {"ids": job_ids})
            rows = {row.id: row for row in found if tenant in (None, row.tenant)}
        return [status_of(rows[job_id]) for job_id in job_ids if job_id in rows]

    def named(self, idempotency_key: str, *, tenant: str) -> JobStatus | None:
        """Return the job that a tenant's idempotency key names, if there is one."""
        statement = select(Job.id).where(Job.tenant == tenant, Job.idempotency_key == idempotency_key)
        with transaction(self._engine) as connection:
            job_id = connection.execute(statement).scalar_one_or_none()
        return next(iter(self.find([JobId(job_id)], tenant=tenant)), None) if job_id else None

    def latest(self, limit: int, wanted: JobFilter = EVERYTHING) -> list[JobStatus]:
        """Return the newest jobs, newest first."""
        statement = _STATUS.where(*_wanted(wanted)).order_by(Job.id.desc()).limit(limit)
        with reading(self._engine) as connection:
            return [status_of(row) for row in connection.execute(statement)]

    def events(self, job_id: JobId, limit: int) -> list[EventRow]:
        """Return the job's latest events, oldest first."""
        statement = select(Event).where(Event.job_id == job_id).order_by(Event.id.desc()).limit(limit)
        with transaction(self._engine) as connection:
            rows = connection.execute(statement).all()
        return [event_row(row) for row in reversed(rows)]


def outcomes_of(row: Any) -> dict[PageOutcome, int]:
    """Return what `OUTCOMES` has counted; outcomes that no page has are missing."""
    return {PageOutcome(outcome): pages for outcome, pages in (row.outcomes or {}).items()}


def event_row(row: Row[Any]) -> EventRow:
    """Return an event as it stands on a trail."""
    return EventRow(event_id=row.id, at=row.at, actor=row.actor, kind=row.kind, detail=row.detail)


def _enter(connection: Connection, submission: Submission) -> Entered:
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
        "api_key_id": submission.api_key_id,
        "callback_url": submission.callback_url,
        "callback_events": list(submission.callback_events) or None,
    }
    given = {name: value for name, value in values.items() if value is not None}
    statement = insert(Job).values(given).on_conflict_do_nothing(constraint="job_idempotency").returning(Job.id)
    job_id = connection.execute(statement).scalar_one_or_none()
    if job_id is not None:
        keep_password(connection, JobId(job_id), submission.password)
        return Entered(job_id=JobId(job_id), is_new=True)
    known = select(Job.id).where(Job.tenant == submission.tenant, Job.idempotency_key == submission.idempotency_key)
    return Entered(job_id=JobId(connection.execute(known).scalar_one()), is_new=False)


def _wanted(wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.tenant is not None:
        conditions.append(Job.tenant == wanted.tenant)
    if wanted.label is not None:
        conditions.append(Job.label == wanted.label)
    if wanted.states:
        conditions.append(Job.state.in_([str(state) for state in wanted.states]))
    if wanted.created_from is not None:
        conditions.append(Job.created_at >= wanted.created_from)
    if wanted.created_before is not None:
        conditions.append(Job.created_at < wanted.created_before)
    if wanted.before is not None:
        conditions.append(Job.id < wanted.before)
    return conditions


def status_of(row: Any) -> JobStatus:
    """Return the job of a row of `FOUND`."""
    return JobStatus(
        job_id=row.id,
        tenant=row.tenant,
        source=row.source_uri or row.source_name,
        source_uri=row.source_uri,
        source_name=row.source_name,
        options=row.options,
        sha256=row.sha256,
        media_type=row.media_type,
        size_bytes=row.size_bytes,
        state=JobState(row.state),
        priority=row.priority,
        page_count=row.page_count,
        outcomes=outcomes_of(row),
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
        begun_at=row.begun_at,
        finished_at=row.finished_at,
        callback_url=row.callback_url,
        callback_events=tuple(map(WebhookEvent, row.callback_events or ())),
    )
