"""What the rows say of the system as a whole, in numbers: the source of the metrics that every process would share."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine, text

from pipeline.adapters.database import transaction

_PATIENCE_MS = 10_000
"""A scrape that takes longer is given up, rather than hold the database up."""

_OPEN_JOBS = """
    SELECT state, count(*) AS number FROM job
    WHERE state NOT IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled') GROUP BY state
"""
# Of what has ended, a window is counted, by index; all of it would be read whole, more each day.
_ENDED_JOBS = """
    SELECT state, coalesce(error_code, '') AS error_code, count(*) AS number
    FROM tenant JOIN job ON job.tenant = tenant.name
    WHERE job.finished_at > statement_timestamp() - CAST(:window AS interval) GROUP BY 1, 2
"""
_ENDED_PAGES = """
    SELECT outcome, coalesce(page.error_code, '') AS error_code, count(*) AS number
    FROM tenant JOIN job ON job.tenant = tenant.name JOIN page ON page.job_id = job.id
    WHERE job.finished_at > statement_timestamp() - CAST(:window AS interval) AND outcome IS NOT NULL GROUP BY 1, 2
"""
_ENDED_ATTEMPTS = """
    SELECT outcome, coalesce(error_code, '') AS error_code, count(*) AS number
    FROM chunk_attempt WHERE ended_at > statement_timestamp() - CAST(:window AS interval) GROUP BY 1, 2
"""
_CHUNKS = """
    SELECT chunk.lane, chunk.state, count(*) AS number, sum(chunk.last_page - chunk.first_page + 1) AS pages,
        sum(chunk.cost_ms) / 1000.0 AS seconds,
        max(extract(epoch FROM statement_timestamp() - greatest(chunk.updated_at, chunk.not_before)))
            FILTER (WHERE chunk.state = 'ready' AND job.state = 'running'
                AND coalesce(chunk.not_before <= statement_timestamp(), true)
                AND NOT (job.paused OR job.cancel_requested OR job.off_hours OR tenant.paused)) AS age
    FROM chunk JOIN job ON job.id = chunk.job_id JOIN tenant ON tenant.name = job.tenant
    WHERE chunk.state IN ('ready', 'admitted', 'running') GROUP BY chunk.lane, chunk.state
"""
_DEAD_CHUNKS = "SELECT lane, count(*) AS number FROM chunk WHERE state = 'dead' GROUP BY lane"
_STEP_AGE = """
    SELECT max(extract(epoch FROM statement_timestamp() - greatest(job.updated_at, job.not_before))) AS age
    FROM job JOIN tenant ON tenant.name = job.tenant
    WHERE job.state IN ('submitted', 'planning', 'merging', 'exporting', 'delivering') AND lease_owner IS NULL
        AND coalesce(not_before <= statement_timestamp(), true)
        AND NOT (job.paused OR job.cancel_requested OR job.off_hours OR tenant.paused)
"""
# An attempt that was lost moved nothing on. A job that waits counts from when it came, not from the last one's end.
_NO_PROGRESS = """
    SELECT extract(epoch FROM statement_timestamp() - greatest(
        (SELECT ended_at FROM chunk_attempt WHERE ended_at IS NOT NULL AND outcome <> 'lost'
            ORDER BY ended_at DESC LIMIT 1),
        (SELECT max(latest.finished_at) FROM tenant CROSS JOIN LATERAL (
            SELECT finished_at FROM job WHERE job.tenant = tenant.name AND finished_at IS NOT NULL
            ORDER BY finished_at DESC LIMIT 1) AS latest),
        waiting.begun_at)) AS age
    FROM (SELECT begun_at FROM job JOIN tenant ON tenant.name = job.tenant
        WHERE state NOT IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled')
            AND NOT (job.paused OR cancel_requested OR off_hours OR tenant.paused)
        ORDER BY job.id LIMIT 1) AS waiting
"""
_DEVICES = """
    SELECT id, kind, total_bytes, baseline_bytes, peak_bytes,
        CASE WHEN coalesce(lease_until > statement_timestamp(), false) THEN state ELSE 'gone' END AS state
    FROM device ORDER BY id
"""
_DELIVERIES = """
    SELECT count(*) AS number, coalesce(max(extract(epoch FROM statement_timestamp() - begun_at)), 0) AS age
    FROM delivery WHERE state = 'due'
"""
_ENDED_DELIVERIES = """
    SELECT state, coalesce(last_error, '') AS error_code, count(*) AS number
    FROM delivery WHERE ended_at > statement_timestamp() - CAST(:window AS interval) GROUP BY 1, 2
"""
_TENANTS = "SELECT name, queued_pages FROM tenant WHERE queued_pages > 0 ORDER BY queued_pages DESC, name"
_SIZE = "SELECT pg_database_size(current_database()) AS bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFigures:
    """A device's row."""

    device_id: str
    kind: str
    state: str
    total_bytes: int | None
    baseline_bytes: int | None
    peak_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """What is open in a lane, by state of chunk, and how long the oldest that may go on has waited."""

    chunks: Mapping[str, int]
    pages: int
    seconds: float
    """Estimated at planning, on one CPU slot."""
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFigures:
    """Webhooks that are to be sent, how long the oldest has waited, and those that ended within the window."""

    due: int
    age_s: float
    ended: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All of it. Pairs of keys are an outcome or state, and an error code, empty where there is none."""

    open_jobs: Mapping[str, int]
    ended_jobs: Mapping[tuple[str, str], int]
    ended_pages: Mapping[tuple[str, str], int]
    """Of the jobs that ended within the window."""
    ended_attempts: Mapping[tuple[str, str], int]
    lanes: Mapping[str, LaneFigures]
    dead_chunks: Mapping[str, int]
    step_age_s: float
    no_progress_s: float
    devices: tuple[DeviceFigures, ...]
    deliveries: DeliveryFigures
    tenants: Mapping[str, int]
    """Queued pages, most first."""
    database_bytes: int


class PostgresFigures:
    """Reads figures from the rows."""

    def __init__(self, engine: Engine, window: timedelta) -> None:
        self._engine = engine
        self._window = window

    def read(self) -> Figures:
        """Return the figures of now. Raises: Transient (`database_unavailable`), also when it takes too long."""
        with transaction(self._engine) as connection:
            connection.execute(text(f"SET LOCAL statement_timeout = {_PATIENCE_MS}"))
            connection.execute(text("SET TRANSACTION READ ONLY"))
            values = {"window": self._window}
            return Figures(
                open_jobs={row.state: row.number for row in connection.execute(text(_OPEN_JOBS))},
                ended_jobs=_pairs(connection, _ENDED_JOBS, "state", values),
                ended_pages=_pairs(connection, _ENDED_PAGES, "outcome", values),
                ended_attempts=_pairs(connection, _ENDED_ATTEMPTS, "outcome", values),
                lanes=_lanes(connection),
                dead_chunks={row.lane: row.number for row in connection.execute(text(_DEAD_CHUNKS))},
                step_age_s=_age(connection, _STEP_AGE),
                no_progress_s=_age(connection, _NO_PROGRESS),
                devices=_devices(connection),
                deliveries=_deliveries(connection, values),
                tenants={row.name: row.queued_pages for row in connection.execute(text(_TENANTS))},
                database_bytes=connection.execute(text(_SIZE)).scalar_one(),
            )


def _pairs(connection: Connection, query: str, what: str, values: dict[str, Any]) -> dict[tuple[str, str], int]:
    rows = connection.execute(text(query), values)
    return {(getattr(row, what), row.error_code): row.number for row in rows}


def _lanes(connection: Connection) -> dict[str, LaneFigures]:
    rows = connection.execute(text(_CHUNKS)).all()
    return {
        lane: LaneFigures(
            chunks={row.state: row.number for row in rows if row.lane == lane},
            pages=sum(int(row.pages) for row in rows if row.lane == lane),
            seconds=sum(float(row.seconds) for row in rows if row.lane == lane),
            age_s=max((float(row.age or 0) for row in rows if row.lane == lane), default=0.0),
        )
        for lane in {row.lane for row in rows}
    }


def _deliveries(connection: Connection, values: dict[str, Any]) -> DeliveryFigures:
    due = connection.execute(text(_DELIVERIES)).one()
    ended = _pairs(connection, _ENDED_DELIVERIES, "state", values)
    return DeliveryFigures(due=due.number, age_s=float(due.age), ended=ended)


def _age(connection: Connection, query: str) -> float:
    return max(0.0, float(connection.execute(text(query)).scalar() or 0))


def _devices(connection: Connection) -> tuple[DeviceFigures, ...]:
    return tuple(
        DeviceFigures(
            device_id=row.id,
            kind=row.kind,
            state=row.state,
            total_bytes=row.total_bytes,
            baseline_bytes=row.baseline_bytes,
            peak_bytes=row.peak_bytes,
        )
        for row in connection.execute(text(_DEVICES))
    )
