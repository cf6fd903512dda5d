"""Pages, progress and batches over Postgres. Whose job it is, is asked before."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, Row, func, select

from pipeline.adapters.database import reading, transaction
from pipeline.adapters.submissions import OUTCOMES, event_row, outcomes_of
from pipeline.adapters.tables import Batch, Event, Job, Page
from pipeline.domain.document import JobId, PageClass
from pipeline.domain.recognition import PageOutcome, PageSource
from pipeline.domain.serialisation import flag_from_json
from pipeline.domain.states import JobState
from pipeline.ports.job_views import BatchStatus, PageRow, Progress
from pipeline.ports.submissions import EventRow

_OF_THE_JOB = Event.kind.startswith("job.")


class PostgresJobViews:
    """What watchers see."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def pages(self, job_id: JobId, *, after: int, limit: int, outcomes: frozenset[PageOutcome]) -> list[PageRow]:
        """Return pages in order, those behind a number; with outcomes, only those that ended so."""
        statement = select(Page).where(Page.job_id == job_id, Page.number > after).order_by(Page.number).limit(limit)
        if outcomes:
            statement = statement.where(Page.outcome.in_([str(outcome) for outcome in outcomes]))
        with transaction(self._engine) as connection:
            return [_page(row) for row in connection.execute(statement)]

    def page(self, job_id: JobId, number: int) -> PageRow | None:
        """Return one page; None where the job has no such page, or is not planned yet."""
        statement = select(Page).where(Page.job_id == job_id, Page.number == number)
        with transaction(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        return _page(row) if row else None

    def moves(self, job_id: JobId, *, after: int, limit: int) -> list[EventRow]:
        """Return what happened to a job as a whole behind an event, in order.

        Whoever writes such an event holds the job's row, so none can come later with a lower id.
        """
        statement = (
            select(Event).where(Event.job_id == job_id, Event.id > after, _OF_THE_JOB).order_by(Event.id).limit(limit)
        )
        with transaction(self._engine) as connection:
            return [event_row(row) for row in connection.execute(statement)]

    def progress(self, job_ids: Sequence[JobId]) -> dict[JobId, Progress]:
        """Return how far these jobs are, without those that don't exist."""
        statement = select(Job.id, Job.state, Job.page_count, OUTCOMES).where(Job.id.in_(job_ids))
        with reading(self._engine) as connection:
            return {
                JobId(row.id): Progress(state=JobState(row.state), page_count=row.page_count, outcomes=outcomes_of(row))
                for row in connection.execute(statement)
            }

    def batches(self, tenant: str, *, after: str | None, limit: int, label: str | None = None) -> list[BatchStatus]:
        """Return a tenant's batches by label, those behind a label; or the one of a label."""
        statement = select(Batch).where(Batch.tenant == tenant).order_by(Batch.label).limit(limit)
        if after is not None:
            statement = statement.where(Batch.label > after)
        if label is not None:
            statement = statement.where(Batch.label == label)
        with transaction(self._engine) as connection:
            rows = connection.execute(statement).all()
            labels = [row.label for row in rows]
            mine = (Job.tenant == tenant, Job.label.in_(labels))
            done = (
                select(Job.label, Page.outcome, func.count().label("pages"))
                .join(Page, Page.job_id == Job.id)
                .where(*mine, Page.outcome.is_not(None))
                .group_by(Job.label, Page.outcome)
            )
            jobs = (
                select(
                    Job.label,
                    Job.state,
                    func.count().label("jobs"),
                    func.coalesce(func.sum(Job.page_count), 0).label("pages"),
                )
                .where(*mine)
                .group_by(Job.label, Job.state)
            )
            by_outcome = connection.execute(done).all()
            by_state = connection.execute(jobs).all()
        return [
            _batch(
                row,
                [count for count in by_state if count.label == row.label],
                {PageOutcome(str(count.outcome)): count.pages for count in by_outcome if count.label == row.label},
            )
            for row in rows
        ]


def _page(row: Row[Any]) -> PageRow:
    return PageRow(
        number=row.number,
        page_class=PageClass(getattr(row, "class")),
        source_file=row.source_file,
        outcome=PageOutcome(row.outcome) if row.outcome else None,
        flags=tuple(flag_from_json(flag) for flag in row.flags),
        confidence=row.confidence,
        angle_deg=row.angle_deg,
        width_px=row.width_px,
        height_px=row.height_px,
        dpi=row.dpi,
        engine=row.engine,
        revision=row.revision,
        elapsed_ms=row.elapsed_ms,
        source=PageSource(job_id=row.reused_job, number=row.reused_page) if row.reused_job else None,
        error_code=row.error_code,
        error_detail=row.error_detail,
        segment_key=row.segment_key,
    )


def _batch(row: Row[Any], counted: Sequence[Any], outcomes: dict[PageOutcome, int]) -> BatchStatus:
    return BatchStatus(
        label=row.label,
        paused=row.paused,
        priority=row.priority,
        deadline=row.deadline,
        hours=row.hours,
        created_at=row.created_at,
        jobs={JobState(count.state): count.jobs for count in counted},
        pages=sum(int(count.pages) for count in counted),
        outcomes=outcomes,
    )
