"""The admin port: devices, engines, queues and usage of the whole system, for keys with the scope `admin`."""

import re
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from pipeline.adapters.usage import PostgresOverview
from pipeline.api.callers import Administrator, Caller
from pipeline.api.documentation import problems
from pipeline.api.problems import not_found
from pipeline.api.service import Served, Service
from pipeline.domain.document import Lane
from pipeline.domain.states import ChunkState, DeviceState, JobState
from pipeline.engines.registry import names as engine_names
from pipeline.ports.devices import DeviceStatus

router = APIRouter(tags=["look"], responses=problems(401, 403, 422, 429, 503))
_LINES_AT_ONCE = 10_000
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _as_day(value: object) -> object:
    """Pass on what may be a day; numbers would be taken for seconds since 1970."""
    if isinstance(value, str) and not _DAY.fullmatch(value):
        raise ValueError("a day is written as 2026-11-30")
    return value


Day = Annotated[date, BeforeValidator(_as_day)]
DeviceName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class Device(BaseModel):
    """An accelerator or a CPU slot."""

    id: str
    host: str
    name: str
    kind: str
    state: DeviceState
    is_live: bool
    drain_requested: bool
    holder: str | None
    engine: str | None
    revision: str | None
    problem: str | None = Field(description="Why it takes nothing, where that is nobody's wish.")
    total_bytes: int | None
    free_bytes: int | None = Field(description="Of these, what is not held by others.")
    baseline_bytes: int | None
    peak_bytes: int | None
    updated_at: datetime
    chunk_id: str | None
    job_id: str | None


class DeviceList(BaseModel):
    """All devices, by host and name."""

    devices: list[Device]


class Engine(BaseModel):
    """A recogniser that a document may ask for."""

    name: str
    live_devices: int = Field(description="That have it loaded.")


class EngineList(BaseModel):
    """All recognisers."""

    engines: list[Engine]


class QueueView(BaseModel):
    """What has not ended."""

    jobs: dict[JobState, int]
    chunks: dict[Lane, dict[ChunkState, int]]
    oldest_age_s: float | None


class UsageLine(BaseModel):
    """What one key of a tenant had planned in a day, UTC."""

    day: date
    tenant: str
    api_key_id: str | None
    documents: int
    pages: int


class UsageList(BaseModel):
    """By day, tenant and key."""

    usage: list[UsageLine]
    next: date | None = Field(description="The day to ask on from, as `first`, where there is more.")


@router.get("/v1/devices")
def devices(service: Served, caller: Administrator) -> DeviceList:
    """List devices: what they do, what they have loaded, what memory that takes."""
    return DeviceList(devices=[_device(status) for status in service.devices_of(caller).all()])


@router.post("/v1/devices/{name:path}/drain", responses=problems(404))
def drain(service: Served, caller: Administrator, name: Annotated[DeviceName, Path()]) -> DeviceList:
    """Let devices finish their page and take nothing more: `host/cpu:0`, or `cpu:0` on every host."""
    return _set_drain(service, caller, name, drain=True)


@router.post("/v1/devices/{name:path}/resume", responses=problems(404))
def resume(service: Served, caller: Administrator, name: Annotated[DeviceName, Path()]) -> DeviceList:
    """Let drained devices serve again."""
    return _set_drain(service, caller, name, drain=False)


@router.get("/v1/engines")
def engines(service: Served, caller: Administrator) -> EngineList:
    """List recognisers."""
    live = [status.engine for status in service.devices_of(caller).all() if status.is_live]
    return EngineList(engines=[Engine(name=name, live_devices=live.count(name)) for name in engine_names()])


@router.get("/v1/queues")
def queues(service: Served, caller: Administrator) -> QueueView:  # noqa: ARG001 - asked for its scope
    """Show what waits and what is in work."""
    return QueueView(**asdict(PostgresOverview(service.engine).queues()))


@router.get("/v1/usage")
def usage(
    service: Served,
    caller: Administrator,  # noqa: ARG001 - asked for its scope
    first: Day | None = None,
    last: Day | None = None,
    tenant: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]*$")] | None = None,
) -> UsageList:
    """Show documents and pages by day, tenant and key; the last 30 days, if no days are given."""
    until = last or datetime.now(UTC).date()
    since = first or max(until - timedelta(days=29), date.min)
    rows = PostgresOverview(service.engine).usage(first=since, last=until, tenant=tenant, limit=_LINES_AT_ONCE + 1)
    # A day is told whole, or by the next answer; one alone that has more lines than that is told as far as they go.
    begun = rows[-1].day if len(rows) > _LINES_AT_ONCE and rows[0].day < rows[-1].day else None
    lines = [UsageLine(**asdict(row)) for row in rows if row.day != begun]
    return UsageList(usage=lines, next=begun)


def _set_drain(service: Service, caller: Caller, name: str, *, drain: bool) -> DeviceList:
    board = service.devices_of(caller)
    concerned = board.set_drain([name], drain=drain)
    if not concerned:
        raise not_found()
    return DeviceList(devices=[_device(status) for status in board.all() if status.device_id in concerned])


def _device(status: DeviceStatus) -> Device:
    given: dict[str, Any] = asdict(status)
    ids = {name: str(given[name]) if given[name] else None for name in ("chunk_id", "job_id")}
    return Device(**given | {"id": given["device_id"]} | ids)
