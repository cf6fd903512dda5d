"""What dispatchers find in the rows that nobody else would; any number may look, locks and guards keep them apart."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, case, exists, func, or_, select, text, update

from pipeline.adapters.admissions import due_chunk, due_job
from pipeline.adapters.chunks import count_down, give_up_pages, lost_claim, obey
from pipeline.adapters.conditions import HELD_JOB, NOW, OPEN_CHUNK, OPEN_JOB, STEPPING
from pipeline.adapters.database import transaction
from pipeline.adapters.jobs import attempts_of
from pipeline.adapters.tables import Chunk, ChunkAttempt, Job, Page
from pipeline.domain.document import JobId, Lane
from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove
from pipeline.domain.retry import ChunkDecision
from pipeline.domain.states import AttemptOutcome, ChunkState, JobState
from pipeline.ports.dispatch import DueChunk, DueJob, ExpiredChunk, Patience

_WAITING_CHUNK = Chunk.state.in_([ChunkState.READY, ChunkState.ADMITTED])
_OF_SHORT_JOB = select(Job.is_short).where(Job.id == Chunk.job_id).scalar_subquery().label("is_short")
_BATCH = 200
"""Rows that one sweep of one kind touches at most; the next sweep takes the rest."""

# One probe of the index for each pair of hours and off_hours that any open job has, not one for each job.
_TURN_HOURS = text("""
    WITH RECURSIVE known(hours, off_hours) AS (
        (SELECT hours, off_hours FROM job WHERE hours IS NOT NULL
            AND state NOT IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled')
            ORDER BY hours, off_hours LIMIT 1)
        UNION ALL
        SELECT following.hours, following.off_hours FROM known CROSS JOIN LATERAL (
            SELECT hours, off_hours FROM job WHERE hours IS NOT NULL
                AND state NOT IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled')
                AND (job.hours, job.off_hours) > (known.hours, known.off_hours)
            ORDER BY hours, off_hours LIMIT 1
        ) AS following
    )
    UPDATE job SET off_hours = NOT off_hours WHERE id IN (
        SELECT job.id FROM known JOIN job USING (hours, off_hours)
        WHERE job.hours IS NOT NULL
            AND job.state NOT IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled')
            AND known.off_hours = muniment_within(known.hours, clock_timestamp())
        LIMIT :batch FOR UPDATE OF job SKIP LOCKED
    )
""")


class PostgresSweeps:
    """Sweeps over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def unstarted_jobs(self, older_than: timedelta) -> list[DueJob]:
        """Mark again, and return, jobs whose message was sent that long ago and whose step nobody took."""
        with transaction(self._engine) as connection:
            rows = connection.execute(
                update(Job)
                .where(STEPPING, Job.lease_owner.is_(None), Job.dispatched_at < NOW - older_than)
                .values(dispatched_at=NOW)
                .returning(Job.id, Job.state, Job.attempt)
            ).all()
        return [due_job(row) for row in rows]

    def unstarted_chunks(self, lane: Lane, older_than: timedelta) -> list[DueChunk]:
        """Mark again, and return, chunks that were admitted that long ago and that nobody took."""
        with transaction(self._engine) as connection:
            rows = connection.execute(
                update(Chunk)
                .where(Chunk.lane == lane, Chunk.state == ChunkState.ADMITTED, Chunk.dispatched_at < NOW - older_than)
                .values(dispatched_at=NOW)
                .returning(Chunk.id, Chunk.job_id, Chunk.attempt, _OF_SHORT_JOB)
            ).all()
        return [due_chunk(row, lane, is_short=row.is_short) for row in rows]

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
            ExpiredChunk(claim=lost_claim(row), attempts=attempts_of(row), pages_left=row.pages_left) for row in rows
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
        # Whatever is leased was sent; saying so lets the index of what was sent find it.
        expired = and_(STEPPING, Job.dispatched_at.is_not(None), Job.lease_until < NOW)
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

    def recall_held(self) -> int:
        """Take back what was sent of jobs that are to wait, so that it is due when they may go on; return how many."""
        with transaction(self._engine) as connection:
            jobs = connection.execute(
                update(Job)
                .where(STEPPING, Job.dispatched_at.is_not(None), Job.lease_owner.is_(None), HELD_JOB)
                .values(dispatched_at=None)
            ).rowcount
            held = exists().where(Job.id == Chunk.job_id, HELD_JOB)
            chunks = connection.execute(
                update(Chunk)
                .where(Chunk.state == ChunkState.ADMITTED, held)
                .values(state=ChunkState.READY, dispatched_at=None)
            ).rowcount
        return jobs + chunks

    def turn_hours(self) -> int:
        """Hold the jobs whose hours have ended and let those go whose hours have begun; return how many."""
        with transaction(self._engine) as connection:
            return connection.execute(_TURN_HOURS, {"batch": _BATCH}).rowcount

    def end_unwanted(self) -> list[JobId]:
        """Cancel what waits of jobs that are to be cancelled or whose deadline has passed; end those that run nowhere.

        Chunks in work stop at their next page and are counted then; the job ends in a later sweep.
        """
        with transaction(self._engine) as connection:
            # A deadline stops chunks in work the way a cancel does.
            late = select(Job.id).where(Job.deadline < NOW, Job.deadline.is_not(None), OPEN_JOB, ~Job.cancel_requested)
            connection.execute(update(Job).where(Job.id.in_(late.limit(_BATCH))).values(cancel_requested=True))
        with transaction(self._engine) as connection:
            unwanted = and_(Job.cancel_requested, OPEN_JOB)
            jobs = list(connection.execute(select(Job.id).where(unwanted).limit(_BATCH)).scalars())
            if not jobs:
                return []
            connection.execute(
                update(Chunk)
                .where(Chunk.job_id.in_(jobs), _WAITING_CHUNK)
                .values(state=ChunkState.CANCELLED, dispatched_at=None)
            )
            in_work = select(Chunk.id).where(Chunk.job_id == Job.id, OPEN_CHUNK).exists()
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

    def audit(self, after: JobId | None, patience: Patience) -> tuple[JobId | None, list[JobId]]:
        """Look at some open jobs after this one; end or set right those that nothing else would move."""
        with transaction(self._engine) as connection:
            some = select(Job.id).where(OPEN_JOB).order_by(Job.id).limit(_BATCH)
            ids = list(connection.execute(some.where(Job.id > after) if after else some).scalars())
            stuck = [
                *_past_their_time(connection, ids, patience.longest_job),
                *_without_chunks(connection, ids),
                *_without_progress(connection, ids, patience.longest_wait),
            ]
        return (JobId(ids[-1]) if len(ids) == _BATCH else None), stuck


def _past_their_time(connection: Connection, ids: Sequence[Any], longest: timedelta) -> list[JobId]:
    """Set a deadline that has passed for jobs that have lasted too long; `end_unwanted` does the rest."""
    statement = (
        update(Job)
        # Each NOW is read anew, so one is never compared with another.
        .where(
            Job.id.in_(ids), OPEN_JOB, Job.begun_at < NOW - longest, or_(Job.deadline.is_(None), Job.deadline >= NOW)
        )
        .values(deadline=Job.begun_at + longest)
        .returning(Job.id)
    )
    return [JobId(job_id) for job_id in connection.execute(statement).scalars()]


def _without_chunks(connection: Connection, ids: Sequence[Any]) -> list[JobId]:
    """Bind what there is of running jobs that have no chunk to wait for; merge says what is missing.

    No sequence of moves leads there; rows that were removed or changed by hand do.
    """
    has_open = exists().where(Chunk.job_id == Job.id, OPEN_CHUNK)
    statement = (
        update(Job)
        .where(Job.id.in_(ids), Job.state == JobState.RUNNING, ~Job.cancel_requested, ~has_open)
        .values(state=JobState.MERGING, chunks_remaining=0, dispatched_at=None, not_before=None)
        .returning(Job.id)
    )
    return [JobId(job_id) for job_id in connection.execute(statement).scalars()]


def _without_progress(connection: Connection, ids: Sequence[Any], longest: timedelta) -> list[JobId]:
    """Give up what nobody took for too long: a step fails its job, a chunk its pages, and the rest is bound."""
    error = PipelineError(ErrorCode.NO_PROGRESS, f"nothing took it for {longest}: see `muniment doctor`")
    waited_in_vain = and_(Job.id.in_(ids), Job.updated_at < NOW - longest, ~Job.cancel_requested, ~HELD_JOB)
    stuck = list(
        connection.execute(
            update(Job)
            .where(waited_in_vain, STEPPING, Job.lease_owner.is_(None))
            .values(
                state=JobState.FAILED,
                dispatched_at=None,
                finished_at=NOW,
                error_code=error.code,
                error_detail=error.message,
            )
            .returning(Job.id)
        ).scalars()
    )
    waiting = (
        select(Chunk)
        .join(Job, Job.id == Chunk.job_id)
        .where(waited_in_vain, Job.state == JobState.RUNNING, _WAITING_CHUNK, Chunk.updated_at < NOW - longest)
        .with_for_update(of=Chunk, skip_locked=True)
    )
    for chunk in connection.execute(waiting).all():
        connection.execute(
            update(Chunk)
            .where(Chunk.id == chunk.id)
            .values(state=ChunkState.DEAD, dispatched_at=None, error_code=error.code, error_detail=error.message)
        )
        give_up_pages(connection, chunk, error)
        count_down(connection, chunk.job_id)
        stuck.append(chunk.job_id)
    return [JobId(job_id) for job_id in dict.fromkeys(stuck)]


def _either(condition: ColumnElement[bool], yes: str, no: str) -> ColumnElement[str]:
    # A deadline that is not set compares as unknown, which CASE takes for false.
    return case((condition, str(yes)), else_=str(no))
