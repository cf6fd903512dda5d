"""Reads from the rows what a drill is paced by and judged by."""

from collections import defaultdict
from uuid import UUID

from sqlalchemy import Connection, Engine, func, select

from pipeline.adapters.admissions import due_chunk, due_job
from pipeline.adapters.conditions import OPEN_CHUNK, STEPPING
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Chunk, ChunkAttempt, Event, Job, Page
from pipeline.domain.document import ChunkId, JobId, Lane
from pipeline.domain.errors import ErrorCode
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import STEP_OF, AttemptOutcome, ChunkState, JobState
from pipeline.ports.dispatch import DueChunk, DueJob
from pipeline.ports.evidence import (
    AttemptEvidence,
    ChunkEvidence,
    JobEvidence,
    MoveEvidence,
    PageEvidence,
    Progress,
    RowEvidence,
)


class PostgresEvidence:
    """Reads; changes nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def progress(self) -> Progress:
        """Count what has been done. Raises: Transient."""
        pages = select(func.count()).select_from(Page).where(Page.outcome.is_not(None)).scalar_subquery()
        moves = select(func.coalesce(func.max(Event.id), 0)).scalar_subquery()
        jobs_open = select(func.count()).select_from(Job).where(Job.finished_at.is_(None)).scalar_subquery()
        with transaction(self._engine) as connection:
            row = connection.execute(select(pages.label("pages"), moves.label("moves"), jobs_open.label("open"))).one()
        return Progress(pages=row.pages, moves=row.moves, jobs_open=row.open)

    def chunk_in_work(self, device_id: str) -> ChunkId | None:
        """Return what a device is reading. Raises: Transient."""
        statement = select(ChunkAttempt.chunk_id).where(
            ChunkAttempt.device_id == device_id, ChunkAttempt.ended_at.is_(None)
        )
        with transaction(self._engine) as connection:
            found: UUID | None = connection.execute(
                statement.order_by(ChunkAttempt.started_at.desc()).limit(1)
            ).scalar_one_or_none()
        return ChunkId(found) if found else None

    def awaited(self) -> tuple[list[DueJob], list[DueChunk]]:
        """Return the steps and chunks that have not ended, at the attempt of their next claim. Raises: Transient."""
        with transaction(self._engine) as connection:
            jobs = connection.execute(select(Job.id, Job.state, Job.attempt).where(STEPPING)).all()
            chunks = connection.execute(
                select(Chunk.id, Chunk.job_id, Chunk.lane, Chunk.attempt).where(OPEN_CHUNK)
            ).all()
        return (
            [due_job(row) for row in jobs],
            [due_chunk(row, Lane(row.lane)) for row in chunks],
        )

    def past(self, limit: int) -> tuple[list[DueJob], list[DueChunk]]:
        """Return steps and chunks at attempts that were claimed before, the latest first. Raises: Transient."""
        claimed = (
            select(ChunkAttempt.chunk_id, ChunkAttempt.attempt, Chunk.job_id, Chunk.lane)
            .join(Chunk, Chunk.id == ChunkAttempt.chunk_id)
            .order_by(ChunkAttempt.started_at.desc())
            .limit(limit)
        )
        with transaction(self._engine) as connection:
            jobs = connection.execute(select(Job.id, Job.attempt).order_by(Job.updated_at.desc()).limit(limit)).all()
            chunks = connection.execute(claimed).all()
        return (
            [DueJob(job_id=row.id, step=step, attempt=row.attempt) for row in jobs for step in STEP_OF.values()],
            [
                DueChunk(chunk_id=row.chunk_id, job_id=row.job_id, lane=Lane(row.lane), attempt=row.attempt)
                for row in chunks
            ],
        )

    def rows(self) -> RowEvidence:
        """Return all that a verdict asks for, at one moment. Raises: Transient."""
        with transaction(self._engine) as connection:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return RowEvidence(
                jobs=_jobs(connection),
                chunks=[
                    ChunkEvidence(chunk_id=row.id, job_id=row.job_id, state=ChunkState(row.state))
                    for row in connection.execute(select(Chunk.id, Chunk.job_id, Chunk.state))
                ],
                attempts=_attempts(connection),
                moves=[
                    MoveEvidence(at=row.at, actor=row.actor)
                    for row in connection.execute(select(Event.at, Event.actor).order_by(Event.id))
                ],
            )


def _jobs(connection: Connection) -> list[JobEvidence]:
    ledgers: dict[JobId, list[PageEvidence]] = defaultdict(list)
    pages = select(Page.job_id, Page.number, Page.outcome, Page.error_code).order_by(Page.job_id, Page.number)
    for row in connection.execute(pages):
        ledgers[row.job_id].append(
            PageEvidence(
                number=row.number,
                outcome=PageOutcome(row.outcome) if row.outcome else None,
                error_code=ErrorCode(row.error_code) if row.error_code else None,
            )
        )
    merges = (
        select(func.count())
        .select_from(Event)
        .where(Event.job_id == Job.id, Event.kind == f"job.{JobState.MERGING}")
        .scalar_subquery()
    )
    return [
        JobEvidence(
            job_id=row.id,
            source_name=row.source_name,
            state=JobState(row.state),
            steps_claimed=row.attempt,
            error_code=row.error_code,
            merges=row.merges,
            result_key=row.result_keys.get("json"),
            ledger=ledgers[row.id],
        )
        for row in connection.execute(select(Job, merges.label("merges")).order_by(Job.created_at))
    ]


def _attempts(connection: Connection) -> list[AttemptEvidence]:
    statement = (
        select(ChunkAttempt, Chunk.job_id)
        .join(Chunk, Chunk.id == ChunkAttempt.chunk_id)
        .order_by(ChunkAttempt.started_at)
    )
    return [
        AttemptEvidence(
            chunk_id=row.chunk_id,
            job_id=row.job_id,
            attempt=row.attempt,
            device_id=row.device_id,
            started_at=row.started_at,
            ended_at=row.ended_at,
            outcome=AttemptOutcome(row.outcome) if row.outcome else None,
            error_code=row.error_code,
            pages_done=row.pages_done,
        )
        for row in connection.execute(statement)
    ]
