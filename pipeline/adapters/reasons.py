"""What a job waits for, in one sentence, from its rows: the answer to "why does nothing happen?"."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, func, select

from pipeline.adapters.conditions import NOW, OPEN_JOB, PAUSED_TENANT
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Chunk, Device, Job
from pipeline.domain.document import JobId
from pipeline.domain.states import STEP_OF, ChunkState, JobState


class PostgresReasons:
    """Reasons over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def waits_for(self, job_ids: Collection[JobId]) -> dict[JobId, str]:
        """Return what jobs wait for, without those that have ended, or that there are not."""
        put_off = (Job.not_before > NOW).label("put_off")
        wanted = select(Job, PAUSED_TENANT.label("tenant_paused"), put_off).where(Job.id.in_(job_ids), OPEN_JOB)
        with transaction(self._engine) as connection:
            jobs = connection.execute(wanted).all()
            held = {job.id: reason for job in jobs if (reason := _held(job))}
            free = [job for job in jobs if job.id not in held]
            reading = [job for job in free if job.state == JobState.RUNNING]
            chunks = _chunks(connection, reading) if reading else {}
        return held | {job.id: _step(job) for job in free if job.state != JobState.RUNNING} | chunks


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


def _chunks(connection: Connection, jobs: Sequence[Any]) -> dict[JobId, str]:
    put_off = func.min(Chunk.error_code).filter(Chunk.not_before > NOW).label("put_off_after")
    counting = (
        select(Chunk.job_id, Chunk.state, func.count().label("chunks"), put_off)
        .where(Chunk.job_id.in_([job.id for job in jobs]))
        .group_by(Chunk.job_id, Chunk.state)
    )
    counts: dict[UUID, dict[ChunkState, int]] = defaultdict(dict)
    errors: dict[UUID, str] = {}
    for row in connection.execute(counting):
        counts[row.job_id][ChunkState(row.state)] = row.chunks
        if row.put_off_after:
            errors[row.job_id] = row.put_off_after
    live = connection.execute(select(Device.lanes).where(Device.lease_until > NOW).distinct()).scalars()
    served = {lane for lanes in live for lane in lanes}
    return {job.id: _reading(job, counts[job.id], errors.get(job.id), served) for job in jobs}


def _reading(job: Any, counted: Mapping[ChunkState, int], error: str | None, served: Collection[str]) -> str:
    parts = {
        "in work": counted.get(ChunkState.RUNNING, 0),
        "sent": counted.get(ChunkState.ADMITTED, 0),
        "waiting": counted.get(ChunkState.READY, 0),
    }
    chunks = "chunks: " + ", ".join(f"{count} {name}" for name, count in parts.items() if count)
    if job.lane not in served:
        return f"a device that serves the lane {job.lane}; none is live ({chunks})"
    return f"{chunks}; some again after {error}" if error else chunks
