"""Device rows: who holds which accelerator or CPU slot, for all hosts to see."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import structlog
from sqlalchemy import Engine, and_, case, func, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Chunk, ChunkAttempt, Device
from pipeline.domain.chunk_memory import EngineMemory
from pipeline.domain.document import ChunkId, JobId
from pipeline.domain.memory_needs import needs_from_json, needs_to_json
from pipeline.domain.recognition import EngineIdentity
from pipeline.domain.states import ChunkState, DeviceState
from pipeline.ports.chunks import Measured
from pipeline.ports.devices import DeviceHeld, DeviceInfo, DeviceStatus, Standing

log = structlog.get_logger()


class PostgresDevices:
    """Devices over Postgres."""

    def __init__(self, engine: Engine, *, lease: timedelta) -> None:
        self._engine = engine
        self._lease = lease

    def acquire(self, device: DeviceInfo, owner: str) -> Standing:
        """Take the device's lease; it may have been asked to drain before. Raises: DeviceHeld, which says by whom."""
        values = {
            "host": device.host,
            "name": device.name,
            "kind": device.kind,
            "lanes": [str(lane) for lane in device.lanes],
            "total_bytes": device.total_bytes,
            "state": DeviceState.FREE,
            "lease_owner": owner,
            "lease_until": NOW + self._lease,
        }
        free = or_(Device.lease_owner.is_(None), Device.lease_owner == owner, Device.lease_until < NOW)
        statement = (
            insert(Device)
            .values(id=device.id, **values)
            .on_conflict_do_update(index_elements=[Device.id], set_=values, where=free)
            .returning(Device.drain_requested)
        )
        with transaction(self._engine) as connection:
            taken = connection.execute(statement).one_or_none()
            if taken is None:
                holder = connection.execute(select(Device.lease_owner).where(Device.id == device.id)).scalar_one()
                raise DeviceHeld(device.id, holder or "a worker that has just gone")
        return _standing(taken)

    def renew(
        self,
        device_id: str,
        owner: str,
        state: DeviceState,
        *,
        problem: str | None = None,
        free_bytes: int | None = None,
    ) -> Standing:
        """Extend the lease, show the state and what is wrong, and say what is to be done."""
        shown = {"state": state, "problem": problem, "free_bytes": free_bytes}
        return _standing(self._write(device_id, owner, lease_until=NOW + self._lease, **shown))

    def describe(self, device_id: str, owner: str, engine: EngineIdentity, measured: Measured) -> None:
        """Show what is loaded and what it takes; the peak is the highest since that was loaded."""
        is_same = and_(Device.engine == engine.name, Device.revision == engine.revision)
        self._write(
            device_id,
            owner,
            engine=engine.name,
            revision=engine.revision,
            baseline_bytes=measured.baseline_bytes,
            peak_bytes=case(
                (is_same, func.greatest(Device.peak_bytes, measured.peak_bytes)), else_=measured.peak_bytes
            ),
        )

    def publish(self, device_id: str, owner: str, needs: Mapping[str, EngineMemory]) -> None:
        """Show what engines take of the device, by their names."""
        self._write(device_id, owner, needs={name: needs_to_json(model) for name, model in needs.items()})

    def needs_of(self, engine: str) -> EngineMemory | None:
        """Return what an engine takes, as the device says that was heard of last."""
        statement = (
            select(Device.needs[engine])
            .where(Device.lease_until > NOW, Device.needs.has_key(engine))
            .order_by(Device.updated_at.desc())
            .limit(1)
        )
        with transaction(self._engine) as connection:
            found = connection.execute(statement).scalar_one_or_none()
        try:
            return None if found is None else needs_from_json(found)
        except ValueError as error:
            log.warning("needs_not_understood", engine=engine, detail=str(error))
            return None

    def release(self, device_id: str, owner: str) -> None:
        """Give the device back."""
        self._write(device_id, owner, lease_owner=None, lease_until=None, state=DeviceState.FREE, problem=None)

    def _write(self, device_id: str, owner: str, **values: object) -> Any:
        statement = (
            update(Device)
            .where(Device.id == device_id, Device.lease_owner == owner)
            .values(**values)
            .returning(Device.drain_requested)
        )
        with transaction(self._engine) as connection:
            return connection.execute(statement).one_or_none()


class PostgresDeviceBoard:
    """DeviceBoard over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> list[DeviceStatus]:
        """Return all devices, by host and name."""
        # The latest, for the row of a chunk whose worker was lost may say for a while that it still runs.
        in_work = (
            select(Chunk.id.label("chunk_id"), Chunk.job_id)
            .join(ChunkAttempt, and_(Chunk.id == ChunkAttempt.chunk_id, Chunk.attempt == ChunkAttempt.attempt))
            .where(ChunkAttempt.device_id == Device.id, Chunk.state == ChunkState.RUNNING)
            .order_by(ChunkAttempt.started_at.desc())
            .limit(1)
            .lateral()
        )
        is_live = func.coalesce(Device.lease_until > NOW, False).label("is_live")
        statement = (
            select(Device, is_live, in_work.c.chunk_id, in_work.c.job_id)
            .outerjoin(in_work, true())
            .order_by(Device.host, func.length(Device.name), Device.name)
        )
        with transaction(self._engine) as connection:
            return [_status(row) for row in connection.execute(statement)]

    def set_drain(self, names: Sequence[str], *, drain: bool) -> list[str]:
        """Ask devices to drain, or to serve again; return the ids of those that there are."""
        statement = (
            update(Device)
            .where(or_(Device.id.in_(names), Device.name.in_(names)))
            .values(drain_requested=drain)
            .returning(Device.id)
        )
        with transaction(self._engine) as connection:
            return sorted(connection.execute(statement).scalars())


def _standing(row: Any) -> Standing:
    if row is None:
        return Standing.LOST
    return Standing.DRAIN if row.drain_requested else Standing.SERVE


def _status(row: Any) -> DeviceStatus:
    return DeviceStatus(
        device_id=row.id,
        host=row.host,
        name=row.name,
        kind=row.kind,
        state=DeviceState(row.state),
        is_live=row.is_live,
        drain_requested=row.drain_requested,
        holder=row.lease_owner,
        engine=row.engine,
        revision=row.revision,
        problem=row.problem,
        total_bytes=row.total_bytes,
        free_bytes=row.free_bytes,
        baseline_bytes=row.baseline_bytes,
        peak_bytes=row.peak_bytes,
        updated_at=row.updated_at,
        chunk_id=None if row.chunk_id is None else ChunkId(row.chunk_id),
        job_id=None if row.job_id is None else JobId(row.job_id),
    )
