"""Which rows go onto the broker next: each tenant's best by index, then turns between tenants by `domain/fairness.py`.

However long the backlog is, one admission reads about as many rows as the window has room for, from every tenant.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Row, TextClause, select, text, update

from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Chunk, Device, Job
from pipeline.domain.document import ChunkId, JobId, Lane
from pipeline.domain.fairness import Share, Waiting, Window, next_in_turn
from pipeline.domain.states import STEP_OF, ChunkState, DeviceState, JobState
from pipeline.ports.devices import DeviceInfo
from pipeline.ports.dispatch import DueChunk, DueJob

_IO = "io"
# Held until the transaction ends, by one dispatcher for each queue.
_ALONE = text("SELECT pg_try_advisory_xact_lock(hashtext('muniment admission ' || :queue))")

_JOBS_IN_FLIGHT = text("""
    SELECT count(*), 0 FROM job WHERE dispatched_at IS NOT NULL
        AND state IN ('submitted', 'planning', 'merging', 'exporting', 'delivering')
""")
_DUE_JOBS = text("""
    SELECT tenant.name AS tenant, due.* FROM tenant CROSS JOIN LATERAL (
        SELECT job.id, job.state, job.attempt, job.priority, job.created_at AS since, 1 AS cost_ms FROM job
        WHERE job.tenant = tenant.name AND job.dispatched_at IS NULL
            AND job.state IN ('submitted', 'planning', 'merging', 'exporting', 'delivering')
            AND NOT (job.paused OR job.cancel_requested OR job.off_hours)
            AND (job.not_before IS NULL OR job.not_before <= clock_timestamp())
        ORDER BY job.priority DESC, job.state = 'submitted', job.created_at LIMIT :most
        FOR UPDATE SKIP LOCKED
    ) AS due WHERE NOT tenant.paused
""")

_CHUNKS_IN_FLIGHT = text("""
    SELECT count(*), coalesce(sum(cost_ms), 0) FROM chunk
    WHERE lane = :lane AND state IN ('admitted', 'running') AND is_express = :express
""")
# Of a job that runs and has nothing ready all chunks are in flight, so the window bounds how many such are passed over.
# The order is the index's and no more: to sort jobs of the same moment, a whole batch would have to be read and locked.
_READY_CHUNKS = """
    SELECT tenant.name AS tenant, due.* FROM tenant CROSS JOIN LATERAL (
        SELECT ready.*, job.priority, job.created_at AS since, job.is_short FROM job CROSS JOIN LATERAL (
            SELECT chunk.id, chunk.job_id, chunk.attempt, chunk.ordinal, chunk.cost_ms FROM chunk
            WHERE chunk.job_id = job.id AND chunk.state = 'ready' AND chunk.lane = :lane
                AND (chunk.not_before IS NULL OR chunk.not_before <= clock_timestamp())
            ORDER BY chunk.ordinal LIMIT :most
            FOR UPDATE SKIP LOCKED
        ) AS ready
        WHERE job.lane = :lane AND job.tenant = tenant.name AND job.state = 'running'
            AND NOT (job.paused OR job.cancel_requested OR job.off_hours)
        ORDER BY job.priority DESC, job.created_at LIMIT :most
    ) AS due WHERE NOT tenant.paused
"""
_DUE_CHUNKS = text(_READY_CHUNKS)
_DUE_SHORT = text(_READY_CHUNKS.replace("job.state = 'running'", "job.state = 'running' AND job.is_short"))

# Of a chunk that was read in part, as after a retry, that part of its cost counts.
_PACE = text("""
    SELECT 1000 * extract(epoch FROM sum(recent.ended_at - recent.started_at)) / sum(recent.cost_ms)
    FROM device CROSS JOIN LATERAL (
        SELECT attempt.started_at, attempt.ended_at,
            chunk.cost_ms * attempt.pages_done::float8 / (chunk.last_page - chunk.first_page + 1) AS cost_ms
        FROM chunk_attempt AS attempt JOIN chunk ON chunk.id = attempt.chunk_id
        WHERE attempt.device_id = device.id AND chunk.lane = :lane ORDER BY attempt.started_at DESC LIMIT 8
    ) AS recent
    WHERE device.lease_until > clock_timestamp() AND recent.ended_at IS NOT NULL AND recent.cost_ms > 0
""")
_PACE_BOUNDS = (0.1, 1000.0)
_PACE_HOLDS_S = 5.0

_SHARES = text("""
    SELECT name, weight, started, finished FROM tenant LEFT JOIN turn ON turn.tenant = name AND queue = :queue
""")
_TURN = text("""
    INSERT INTO turn (tenant, queue, started, finished) VALUES (:tenant, :queue, :started, :finished)
    ON CONFLICT (tenant, queue) DO UPDATE SET started = excluded.started, finished = excluded.finished
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked of the rows of one queue."""

    queue: str
    in_flight: TextClause
    due: TextClause
    values: Mapping[str, Any]


class PostgresAdmissions:
    """Admissions over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._paces: dict[Lane, tuple[float, float]] = {}
        """When each was asked for, and what it was."""

    def take_jobs(self, window: Window) -> list[DueJob]:
        """Mark due jobs as sent, as many as the window has room for, and return them, best first."""
        with transaction(self._engine) as connection:
            question = _Question(queue=_IO, in_flight=_JOBS_IN_FLIGHT, due=_DUE_JOBS, values={})
            chosen = _chosen(connection, question, window)
            if chosen:
                ids = [row.id for row in chosen]
                connection.execute(update(Job).where(Job.id.in_(ids)).values(dispatched_at=NOW, not_before=None))
        return [due_job(row) for row in chosen]

    def take_chunks(self, lane: Lane, window: Window) -> list[DueChunk]:
        """Mark ready chunks of the lane as admitted, as many as its window has room for; return them, best first."""
        return self._take_chunks(lane, window, _DUE_CHUNKS, express=False)

    def take_express(self, lane: Lane, window: Window) -> list[DueChunk]:
        """Do the same for chunks of short jobs, within the room that is kept for them."""
        return self._take_chunks(lane, window, _DUE_SHORT, express=True)

    def _take_chunks(self, lane: Lane, window: Window, due: TextClause, *, express: bool) -> list[DueChunk]:
        values = {"lane": str(lane), "express": express}
        question = _Question(queue=str(lane), in_flight=_CHUNKS_IN_FLIGHT, due=due, values=values)
        with transaction(self._engine) as connection:
            chosen = _chosen(connection, question, window)
            if chosen:
                connection.execute(
                    update(Chunk)
                    .where(Chunk.id.in_([row.id for row in chosen]))
                    .values(state=ChunkState.ADMITTED, dispatched_at=NOW, is_express=express)
                )
        return [due_chunk(row, lane, is_short=row.is_short) for row in chosen]

    def pace(self, lane: Lane) -> float:
        """Return how many times longer than estimated the lane's chunks took lately; asked anew every five seconds."""
        asked, pace = self._paces.get(lane, (-_PACE_HOLDS_S, 1.0))
        now = time.monotonic()
        if now - asked >= _PACE_HOLDS_S:
            with transaction(self._engine) as connection:
                found = connection.execute(_PACE, {"lane": lane}).scalar_one()
            least, most = _PACE_BOUNDS
            pace = 1.0 if found is None else min(most, max(least, found))
            self._paces[lane] = now, pace
        return pace

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

    def live_devices(self) -> Sequence[DeviceInfo]:
        """Return the devices whose lease holds and that take chunks."""
        serving = (Device.lease_until > NOW, Device.drain_requested.is_(False), Device.state != DeviceState.SICK)
        with transaction(self._engine) as connection:
            rows = connection.execute(select(Device).where(*serving)).all()
        return [
            DeviceInfo(
                host=row.host,
                name=row.name,
                kind=row.kind,
                lanes=tuple(Lane(lane) for lane in row.lanes),
                total_bytes=row.total_bytes,
                free_bytes=row.free_bytes,
            )
            for row in rows
        ]


def _chosen(connection: Connection, question: _Question, window: Window) -> list[Row[Any]]:
    """Return the locked rows that go next on a queue, and write down whose turn that was."""
    queue = {"queue": question.queue}
    if not connection.execute(_ALONE, queue).scalar_one():
        return []
    count, cost_ms = connection.execute(question.in_flight, question.values).one()
    if not window.has_room(count, cost_ms):
        return []
    due = connection.execute(question.due, {**question.values, "most": window.most - count}).all()
    if not due:
        return []
    shares = {
        row.name: Share(weight=row.weight, started=row.started or 0.0, finished=row.finished or 0.0)
        for row in connection.execute(_SHARES, queue)
    }
    chosen, changed = next_in_turn(shares, _by_tenant(due), window, count, cost_ms)
    turns = [
        {**queue, "tenant": tenant, "started": share.started, "finished": share.finished}
        for tenant, share in changed.items()
    ]
    connection.execute(_TURN, turns)
    return chosen


def _by_tenant(rows: Iterable[Row[Any]]) -> dict[str, list[Waiting[Row[Any]]]]:
    waiting: dict[str, list[Waiting[Row[Any]]]] = defaultdict(list)
    for row in rows:
        waiting[row.tenant].append(Waiting(item=row, priority=row.priority, since=row.since, cost_ms=row.cost_ms))
    return waiting


def due_chunk(row: Any, lane: Lane, *, is_short: bool = False) -> DueChunk:
    """Return what is sent for a chunk's row."""
    return DueChunk(
        chunk_id=ChunkId(row.id), job_id=JobId(row.job_id), lane=lane, attempt=row.attempt + 1, is_short=is_short
    )


def due_job(row: Any) -> DueJob:
    """Return what is sent for a job's row."""
    return DueJob(job_id=JobId(row.id), step=STEP_OF[JobState(row.state)], attempt=row.attempt + 1)
