"""Device rows: who holds which accelerator or CPU slot, for all hosts to see."""

from datetime import timedelta

from sqlalchemy import Engine, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.adapters.database import transaction
from pipeline.adapters.jobs import NOW
from pipeline.adapters.tables import Device
from pipeline.domain.recognition import EngineIdentity
from pipeline.domain.states import DeviceState
from pipeline.ports.chunks import Measured
from pipeline.ports.devices import DeviceHeld, DeviceInfo


class PostgresDevices:
    """Devices over Postgres."""

    def __init__(self, engine: Engine, *, lease: timedelta) -> None:
        self._engine = engine
        self._lease = lease

    def acquire(self, device: DeviceInfo, owner: str) -> None:
        """Take the device's lease. Raises: DeviceHeld, which says by whom."""
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
            .returning(Device.id)
        )
        with transaction(self._engine) as connection:
            if connection.execute(statement).one_or_none() is None:
                holder = connection.execute(select(Device.lease_owner).where(Device.id == device.id)).scalar_one()
                raise DeviceHeld(device.id, holder or "a worker that has just gone")

    def renew(self, device_id: str, owner: str, state: DeviceState) -> bool:
        """Extend the lease and show the state; say whether it still is ours."""
        return self._write(device_id, owner, lease_until=NOW + self._lease, state=state)

    def describe(self, device_id: str, owner: str, engine: EngineIdentity, measured: Measured) -> None:
        """Show what is loaded and what it takes."""
        self._write(
            device_id,
            owner,
            engine=engine.name,
            revision=engine.revision,
            baseline_bytes=measured.baseline_bytes,
            peak_bytes=measured.peak_bytes,
        )

    def release(self, device_id: str, owner: str) -> None:
        """Give the device back."""
        self._write(device_id, owner, lease_owner=None, lease_until=None, state=DeviceState.FREE)

    def _write(self, device_id: str, owner: str, **values: object) -> bool:
        statement = update(Device).where(Device.id == device_id, Device.lease_owner == owner).values(**values)
        with transaction(self._engine) as connection:
            return connection.execute(statement).rowcount == 1
