"""What a forecast is made of, from the rows: what is queued, and how fast chunks of a lane went lately."""

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Row, text

from pipeline.adapters.database import transaction
from pipeline.domain.document import JobId, Lane
from pipeline.domain.forecast import Forecast, Queue, Queued, Speed, time_left

_HOLDS_S = 5.0
"""A queue is looked at as seldom, however many ask."""
_MOST_JOBS = 2_000
"""Of each tenant. What lies further behind is foreseen as if it came right after these."""

_QUEUE = text("""
    SELECT ahead.* FROM tenant CROSS JOIN LATERAL (
        SELECT tenant, priority, created_at, page_count * chunks_remaining::float8 / chunks_total AS pages
        FROM job WHERE lane = :lane AND job.tenant = tenant.name AND state = 'running' AND chunks_total > 0
            AND NOT (job.paused OR cancel_requested OR off_hours)
        ORDER BY priority DESC, created_at LIMIT :most
    ) AS ahead WHERE NOT tenant.paused
""")
_WEIGHTS = text("SELECT name, weight FROM tenant WHERE weight <> 1")
_SPEED = text("""
    WITH live AS (
        SELECT id FROM device WHERE lease_until > clock_timestamp() AND NOT drain_requested AND state <> 'sick'
            AND lanes @> to_jsonb(CAST(:lane AS text))
    ), recent AS (
        SELECT 1000 * extract(epoch FROM ended_at - started_at)::float8 AS took_ms, estimated_ms, pages_done
        FROM live CROSS JOIN LATERAL (
            SELECT attempt.started_at, attempt.ended_at, attempt.pages_done,
                chunk.cost_ms * attempt.pages_done::float8 / (chunk.last_page - chunk.first_page + 1) AS estimated_ms
            FROM chunk_attempt AS attempt JOIN chunk ON chunk.id = attempt.chunk_id
            WHERE attempt.device_id = live.id AND chunk.lane = :lane ORDER BY attempt.started_at DESC LIMIT 16
        ) AS latest
        WHERE ended_at IS NOT NULL AND estimated_ms > 0
    )
    SELECT (SELECT count(*) FROM live) AS devices, count(*) AS chunks, sum(estimated_ms) / sum(pages_done) AS ms_a_page,
        percentile_cont(0.25) WITHIN GROUP (ORDER BY took_ms / estimated_ms) AS least_pace,
        percentile_cont(0.75) WITHIN GROUP (ORDER BY took_ms / estimated_ms) AS most_pace
    FROM recent
""")
_FEWEST_CHUNKS = 3
"""Fewer say nothing about how fast the next ones go."""
_JOBS = text("""
    SELECT job.id, job.lane, job.tenant, job.priority, job.created_at,
        page_count * chunks_remaining::float8 / nullif(chunks_total, 0) AS pages, own.*
    FROM job CROSS JOIN LATERAL (
        SELECT count(*) AS chunks, coalesce(sum(chunk.cost_ms), 0) AS cost_ms FROM chunk
        WHERE chunk.job_id = job.id AND chunk.state IN ('ready', 'admitted', 'running')
    ) AS own
    WHERE job.id = ANY(CAST(:ids AS uuid[])) AND job.state = 'running' AND job.lane IS NOT NULL
""")


@dataclass(frozen=True, slots=True)
class _Seen:
    at: float
    queue: Queue
    speed: Speed | None


class PostgresForecasts:
    """Forecasts over Postgres. Safe to share between threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[str, _Seen] = {}
        self._looking = threading.Lock()

    def of(self, job_ids: Collection[JobId]) -> dict[JobId, Forecast]:
        """Return what is foreseen of jobs, without those whose pages are not known, or all read."""
        with transaction(self._engine) as connection:
            jobs = connection.execute(_JOBS, {"ids": list(job_ids)}).all()
        return {JobId(job.id): self._foreseen(job) for job in jobs if job.chunks}

    def _foreseen(self, job: Row[Any]) -> Forecast:
        seen = self._look(Lane(job.lane))
        ahead = seen.queue.ahead_of(_queued(job))
        left = time_left(ahead, own_ms=job.cost_ms, own_chunks=job.chunks, speed=seen.speed) if seen.speed else None
        return Forecast(ahead=ahead, time_left=left)

    def _look(self, lane: Lane) -> _Seen:
        with self._looking:
            seen = self._seen.get(lane)
            if seen is None or time.monotonic() - seen.at >= _HOLDS_S:
                with transaction(self._engine) as connection:
                    seen = self._seen[lane] = _look(connection, lane)
            return seen


def _look(connection: Connection, lane: Lane) -> _Seen:
    queued = [_queued(row) for row in connection.execute(_QUEUE, {"lane": lane, "most": _MOST_JOBS})]
    weights = {row.name: row.weight for row in connection.execute(_WEIGHTS)}
    return _Seen(time.monotonic(), Queue(queued, weights), _speed(connection, lane))


def _queued(job: Row[Any]) -> Queued:
    return Queued(tenant=job.tenant, priority=job.priority, since=job.created_at, pages=job.pages)


def _speed(connection: Connection, lane: Lane) -> Speed | None:
    found = connection.execute(_SPEED, {"lane": lane}).one()
    if found.chunks < _FEWEST_CHUNKS:
        return None
    return Speed(
        devices=found.devices,
        ms_a_page=found.ms_a_page,
        least_pace=found.least_pace,
        most_pace=found.most_pace,
    )
