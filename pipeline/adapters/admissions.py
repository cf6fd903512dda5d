"""What dispatchers do with rows; any number of them may run, SKIP LOCKED keeps them out of each other's way."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Engine, and_, case, func, or_, select, update

from pipeline.adapters.chunks import lost_claim, obey
from pipeline.adapters.database import transaction
from pipeline.adapters.jobs import NOW
from pipeline.adapters.tables import Chunk, ChunkAttempt, Device, Job, Page
from pipeline.domain.document import JobId, Lane
from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove
from pipeline.domain.retry import ChunkDecision
from pipeline.domain.states import STEP_OF, AttemptOutcome, ChunkState, JobState
from pipeline.ports.devices import DeviceInfo
from pipeline.ports.dispatch import DueChunk, DueJob, ExpiredChunk

_STEPPING = Job.state.in_([str(state) for state in STEP_OF])
_OPEN_CHUNK = Chunk.state.in_([str(state) for state in ChunkState if not state.is_terminal])
_BATCH = 200
"""Rows that one sweep of one kind touches at most; the next sweep takes the rest."""


class PostgresAdmissions:
    """Admissions and Sweeps over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- admission

    def in_flight_jobs(self) -> int:
        """Count the jobs with a step that was sent or is running."""
        return self._count(Job.id, _STEPPING, Job.dispatched_at.is_not(None))

    def in_flight_chunks(self, lane: Lane) -> int:
        """Count the lane's chunks that were sent or are running."""
        return self._count(Chunk.id, Chunk.lane == lane, Chunk.state.in_([ChunkState.ADMITTED, ChunkState.RUNNING]))

    def take_jobs(self, limit: int) -> list[DueJob]:
        """Mark at most this many due jobs as sent, best first, and return them."""
        due = (
            select(Job.id)
            .where(
                _STEPPING,
                Job.dispatched_at.is_(None),
                Job.lease_owner.is_(None),
                _is_due(Job.not_before),
                Job.paused.is_(False),
                Job.cancel_requested.is_(False),
            )
            .order_by(Job.priority.desc(), Job.created_at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        with transaction(self._engine) as connection:
            best_first = list(connection.execute(due).scalars())
            rows = connection.execute(
                update(Job)
                .where(Job.id.in_(best_first))
                .values(dispatched_at=NOW)
                .returning(Job.id, Job.state, Job.attempt)
            ).all()
        return [_due_job(row) for row in sorted(rows, key=lambda row: best_first.index(row.id))]

    def take_chunks(self, lane: Lane, limit: int) -> list[DueChunk]:
        """Mark at most this many ready chunks of the lane as admitted, best first, and return them.

        Of jobs with the same priority each gets its first chunks on the way before any gets its later ones, so that
        a short job waits for one chunk of a long one, not for all.
        """
        due = (
            select(Chunk.id)
            .join(Job, Job.id == Chunk.job_id)
            .where(
                Chunk.lane == lane,
                Chunk.state == ChunkState.READY,
                _is_due(Chunk.not_before),
                Job.state == JobState.RUNNING,
                Job.paused.is_(False),
                Job.cancel_requested.is_(False),
            )
            .order_by(Job.priority.desc(), Chunk.ordinal, Job.created_at)
            .limit(limit)
            .with_for_update(of=Chunk, skip_locked=True)
        )
        with transaction(self._engine) as connection:
            best_first = list(connection.execute(due).scalars())
            rows = connection.execute(
                update(Chunk)
                .where(Chunk.id.in_(best_first))
                .values(state=ChunkState.ADMITTED, dispatched_at=NOW)
                .returning(Chunk.id, Chunk.job_id, Chunk.lane, Chunk.attempt)
            ).all()
        return [_due_chunk(row) for row in sorted(rows, key=lambda row: best_first.index(row.id))]

    def live_devices(self) -> Sequence[DeviceInfo]:
        """Return the devices whose lease holds."""
        with transaction(self._engine) as connection:
            rows = connection.execute(select(Device).where(Device.lease_until > NOW)).all()
        return [
            DeviceInfo(
                host=row.host,
                name=row.name,
                kind=row.kind,
                lanes=tuple(Lane(lane) for lane in row.lanes),
                total_bytes=row.total_bytes,
            )
            for row in rows
        ]

    # --- sweep

    def unstarted_jobs(self, older_than: timedelta) -> list[DueJob]:
        """Mark again, and return, jobs whose message was sent that long ago and whose step nobody took."""
        with transaction(self._engine) as connection:
            rows = connection.execute(
                update(Job)
                .where(_STEPPING, Job.lease_owner.is_(None), Job.dispatched_at < NOW - older_than)
                .values(dispatched_at=NOW)
                .returning(Job.id, Job.state, Job.attempt)
            ).all()
        return [_due_job(row) for row in rows]

    def unstarted_chunks(self, lane: Lane, older_than: timedelta) -> list[DueChunk]:
        """Mark again, and return, chunks that were admitted that long ago and that nobody took."""
        with transaction(self._engine) as connection:
            rows = connection.execute(
                update(Chunk)
                .where(Chunk.lane == lane, Chunk.state == ChunkState.ADMITTED, Chunk.dispatched_at < NOW - older_than)
                .values(dispatched_at=NOW)
                .returning(Chunk.id, Chunk.job_id, Chunk.lane, Chunk.attempt)
            ).all()
        return [_due_chunk(row) for row in rows]

    def unsent(self, jobs: Sequence[DueJob], chunks: Sequence[DueChunk]) -> None:
        """Take marks back, because the broker did not take the messages."""
        with transaction(self._engine) as connection:
            for due in jobs:
                connection.execute(
                    update(Job)
                    .where(Job.id == due.job_id, Job.attempt == due.attempt - 1, Job.lease_owner.is_(None))
                    .values(dispatched_at=None)
                )
            for due_chunk in chunks:
                connection.execute(
                    update(Chunk)
                    .where(
                        Chunk.id == due_chunk.chunk_id,
                        Chunk.state == ChunkState.ADMITTED,
                        Chunk.attempt == due_chunk.attempt - 1,
                    )
                    .values(state=ChunkState.READY, dispatched_at=None)
                )

    def expired_chunks(self) -> list[ExpiredChunk]:
        """Return running chunks whose lease has run out."""
        left = (
            select(func.count())
            .select_from(Page)
            .where(
                Page.job_id == Chunk.job_id,
                Page.number.between(Chunk.first_page, Chunk.last_page),
                Page.outcome.is_(None),
            )
            .scalar_subquery()
        )
        statement = (
            select(Chunk, left.label("pages_left"))
            .where(Chunk.state == ChunkState.RUNNING, Chunk.lease_until < NOW)
            .limit(_BATCH)
        )
        with transaction(self._engine) as connection:
            rows = connection.execute(statement).all()
        return [
            ExpiredChunk(claim=lost_claim(row), failures=row.failures, lost=row.lost, pages_left=row.pages_left)
            for row in rows
        ]

    def reclaim(self, expired: ExpiredChunk, error: PipelineError, decision: ChunkDecision) -> None:
        """Take an expired chunk from whoever held it. Raises: StaleMove, if its holder has come back in time."""
        claim = expired.claim
        with transaction(self._engine) as connection:
            still = connection.execute(
                select(Chunk.id)
                .where(
                    Chunk.id == claim.chunk_id,
                    Chunk.state == ChunkState.RUNNING,
                    Chunk.attempt == claim.attempt,
                    Chunk.lease_until < NOW,
                )
                .with_for_update()
            ).one_or_none()
            if still is None:
                raise StaleMove(f"chunk {claim.chunk_id} is no longer expired at attempt {claim.attempt}")
            connection.execute(
                update(ChunkAttempt)
                .where(ChunkAttempt.chunk_id == claim.chunk_id, ChunkAttempt.attempt == claim.attempt)
                .values(ended_at=NOW, outcome=AttemptOutcome.LOST, error_code=error.code, error_detail=error.message)
            )
            obey(connection, claim, error, decision)

    def reclaim_steps(self, max_lost: int) -> int:
        """Make steps whose lease has run out due again, or fail their job after too many; return how many."""
        expired = and_(_STEPPING, Job.lease_until < NOW)
        freed = {"lease_owner": None, "lease_until": None, "dispatched_at": None}
        with transaction(self._engine) as connection:
            failed = connection.execute(
                update(Job)
                .where(expired, Job.lost >= max_lost)
                .values(
                    **freed,
                    state=JobState.FAILED,
                    finished_at=NOW,
                    error_code=ErrorCode.TOO_MANY_ATTEMPTS,
                    error_detail=f"its {max_lost + 1} last workers were lost during the same step",
                )
            ).rowcount
            again = connection.execute(
                update(Job).where(expired).values(**freed, lost=Job.lost + 1, not_before=NOW + timedelta(seconds=1))
            ).rowcount
        return failed + again

    def end_unwanted(self) -> list[JobId]:
        """Cancel what waits of jobs that are to be cancelled or whose deadline has passed; end those that run nowhere.

        Chunks in work stop at their next page and are counted then; the job ends in a later sweep.
        """
        too_late = and_(Job.deadline < NOW, Job.state.not_in(_terminal()))
        unwanted = and_(Job.state.not_in(_terminal()), or_(Job.cancel_requested.is_(True), too_late))
        with transaction(self._engine) as connection:
            jobs = connection.execute(select(Job.id).where(unwanted).limit(_BATCH)).scalars().all()
            if not jobs:
                return []
            connection.execute(
                update(Chunk)
                .where(Chunk.job_id.in_(jobs), Chunk.state.in_([ChunkState.READY, ChunkState.ADMITTED]))
                .values(state=ChunkState.CANCELLED, dispatched_at=None)
            )
            # A deadline stops chunks in work the way a cancel does.
            connection.execute(update(Job).where(Job.id.in_(jobs), too_late).values(cancel_requested=True))
            in_work = select(Chunk.id).where(Chunk.job_id == Job.id, _OPEN_CHUNK).exists()
            passed = Job.deadline < NOW
            ended = connection.execute(
                update(Job)
                .where(Job.id.in_(jobs), unwanted, Job.lease_owner.is_(None), ~in_work)
                .values(
                    state=_either(passed, JobState.FAILED, JobState.CANCELLED),
                    error_code=_either(passed, ErrorCode.DEADLINE_PASSED, ErrorCode.CANCELLED),
                    error_detail=_either(passed, "its deadline passed before it was done", "it was cancelled"),
                    dispatched_at=None,
                    finished_at=NOW,
                )
                .returning(Job.id)
            ).scalars()
            return [JobId(job_id) for job_id in ended]

    def _count(self, column: Any, *conditions: ColumnElement[bool]) -> int:
        with transaction(self._engine) as connection:
            counted: int = connection.execute(select(func.count(column)).where(*conditions)).scalar_one()
        return counted


def _terminal() -> list[str]:
    return [str(state) for state in JobState if state.is_terminal]


def _is_due(not_before: Any) -> ColumnElement[bool]:
    return or_(not_before.is_(None), not_before <= NOW)


def _either(condition: ColumnElement[bool], yes: str, no: str) -> ColumnElement[str]:
    # A deadline that is not set compares as unknown, which CASE takes for false.
    return case((condition, str(yes)), else_=str(no))


def _due_job(row: Any) -> DueJob:
    return DueJob(job_id=row.id, step=STEP_OF[JobState(row.state)], attempt=row.attempt + 1)


def _due_chunk(row: Any) -> DueChunk:
    return DueChunk(chunk_id=row.id, job_id=row.job_id, lane=Lane(row.lane), attempt=row.attempt + 1)
