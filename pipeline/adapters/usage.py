"""What waits and what was done, for those who run the system: queues, usage by tenant."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Engine, func, select

from pipeline.adapters.conditions import OPEN_JOB
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Chunk, Job, Usage
from pipeline.domain.document import Lane
from pipeline.domain.states import ChunkState, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """What has not ended."""

    jobs: Mapping[JobState, int]
    chunks: Mapping[Lane, Mapping[ChunkState, int]]
    oldest_age_s: float | None
    """Of the open job that was submitted first, or begun again first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What one key of a tenant had planned in a day, UTC."""

    day: date
    tenant: str
    api_key_id: str | None
    documents: int
    pages: int


class PostgresOverview:
    """The system as a whole."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def queues(self) -> Queues:
        """Return what waits and what is in work."""
        jobs = select(Job.state, func.count()).where(OPEN_JOB).group_by(Job.state)
        chunks = (
            select(Chunk.lane, Chunk.state, func.count())
            .where(Chunk.state.in_([ChunkState.READY, ChunkState.ADMITTED, ChunkState.RUNNING]))
            .group_by(Chunk.lane, Chunk.state)
        )
        oldest = select(func.extract("epoch", func.clock_timestamp() - func.min(Job.begun_at))).where(OPEN_JOB)
        waiting: dict[Lane, dict[ChunkState, int]] = {lane: {} for lane in Lane}
        with transaction(self._engine) as connection:
            by_state = {JobState(str(state)): count for state, count in connection.execute(jobs)}
            for lane, state, count in connection.execute(chunks):
                waiting[Lane(str(lane))][ChunkState(str(state))] = count
            age = connection.execute(oldest).scalar_one()
        return Queues(jobs=by_state, chunks=waiting, oldest_age_s=None if age is None else float(age))

    def usage(self, *, first: date, last: date, tenant: str | None, limit: int) -> list[UsageRow]:
        """Return what was planned on these days, both included, by day, tenant and key."""
        statement = (
            select(Usage)
            .where(Usage.day.between(first, last))
            .order_by(Usage.day, Usage.tenant, Usage.api_key_id)
            .limit(limit)
        )
        if tenant is not None:
            statement = statement.where(Usage.tenant == tenant)
        with transaction(self._engine) as connection:
            rows = connection.execute(statement).all()
        return [
            UsageRow(
                day=row.day,
                tenant=row.tenant,
                api_key_id=row.api_key_id or None,
                documents=row.documents,
                pages=row.pages,
            )
            for row in rows
        ]
