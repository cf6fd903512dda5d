"""What a job waits for, in one sentence, from its rows: the answer to "why does nothing happen?"."""

from typing import Any

from sqlalchemy import Connection, Engine, exists, func, select

from pipeline.adapters.conditions import NOW, PAUSED_TENANT
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Chunk, Device, Job
from pipeline.domain.document import JobId
from pipeline.domain.states import STEP_OF, ChunkState, JobState


class PostgresReasons:
    """Reasons over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def waits_for(self, job_id: JobId) -> str | None:
        """Return what the job waits for; None where there is no such job, or it has ended."""
        put_off = (Job.not_before > NOW).label("put_off")
        with transaction(self._engine) as connection:
            job = connection.execute(
                select(Job, PAUSED_TENANT.label("tenant_paused"), put_off).where(Job.id == job_id)
            ).one_or_none()
            if job is None or JobState(job.state).is_terminal:
                return None
            return _held(job) or (_chunks(connection, job) if job.state == JobState.RUNNING else _step(job))


def _held(job: Any) -> str | None:
    if job.cancel_requested:
        return "the page in work, to be cancelled"
    if job.tenant_paused:
        return f"its tenant {job.tenant}, which is paused"
    if job.paused:
        return "whoever paused it, to resume it"
    return f"its hours, {job.hours}" if job.off_hours else None


def _step(job: Any) -> str:
    step = STEP_OF[JobState(job.state)]
    if job.lease_owner:
        return f"{step}, by {job.lease_owner}"
    if job.put_off:
        return f"its next {step} at {job.not_before:%H:%M:%S}, after {job.error_code}"
    return f"a worker to take its {step}" if job.dispatched_at else f"its turn for {step}"


def _chunks(connection: Connection, job: Any) -> str:
    counted = dict(
        connection.execute(select(Chunk.state, func.count()).where(Chunk.job_id == job.id).group_by(Chunk.state)).all()
    )
    parts = {
        "in work": counted.get(ChunkState.RUNNING, 0),
        "sent": counted.get(ChunkState.ADMITTED, 0),
        "waiting": counted.get(ChunkState.READY, 0),
    }
    chunks = "chunks: " + ", ".join(f"{count} {name}" for name, count in parts.items() if count)
    serves = exists().where(Device.lease_until > NOW, Device.lanes.contains([job.lane]))
    if not connection.execute(select(serves)).scalar_one():
        return f"a device that serves the lane {job.lane}; none is live ({chunks})"
    last = connection.execute(
        select(Chunk.error_code).where(Chunk.job_id == job.id, Chunk.not_before > NOW).limit(1)
    ).scalar_one_or_none()
    return f"{chunks}; some again after {last}" if last else chunks
