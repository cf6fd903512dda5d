"""What a Celery child holds: its wiring and, if it serves a device, the supervisor of that device's runner.

Process-wide by nature: Celery gives its tasks no other place. Made after the fork, by `begin`.
"""

import mmap
import os
import random
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import structlog

from pipeline.domain.device_health import Health
from pipeline.domain.document import Lane
from pipeline.domain.errors import PipelineError
from pipeline.domain.recognition import EngineIdentity
from pipeline.domain.states import DeviceState
from pipeline.engines.registry import memory_of
from pipeline.engines.registry import names as engine_names
from pipeline.logs import configure_logs
from pipeline.monitoring.serving import MetricsServer
from pipeline.monitoring.tracing import traced
from pipeline.ports.chunks import Measured
from pipeline.ports.devices import DeviceHeld, DeviceInfo, Standing
from pipeline.settings import DeviceSettings, Settings, read_settings
from pipeline.steps.recognise import Recognise
from pipeline.steps.render import Render
from workers.consumers import Consumers
from workers.device_budget import DeviceBudget
from workers.device_view import view_of
from workers.runner_process import Patience, RunnerCommand
from workers.supervisor import MemoryBounds, Supervisor
from workers.wiring import Wiring

if TYPE_CHECKING:
    from pipeline.monitoring.counting import PrometheusMeter

log = structlog.get_logger()

DEVICE_VARIABLE = "MUNIMENT_DEVICE"
"""Names the device that this worker serves, e.g. `cpu:0`; unset in workers that serve none."""
NAME_VARIABLE = "MUNIMENT_WORKER"
TOTAL_BYTES_VARIABLE = "MUNIMENT_DEVICE_BYTES"
"""What the accelerator has, which the launcher has asked the driver for."""
QUEUES_VARIABLE = "MUNIMENT_WORKER_QUEUES"
_KEEPINGS_IN_A_LEASE = 10
"""Also how soon a drain is heard of."""


class SharedFlag:
    """A flag that a parent sets and its forked children see; children get no signal in Celery's warm shutdown."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self) -> None:
        """Raise it, for good."""
        self._memory[0] = 1

    def is_set(self) -> bool:
        """Whether it was raised."""
        return self._memory[0] == 1


DRAIN = SharedFlag()
"""The worker was asked to stop: chunks stop at their next page border."""


def device_lock(devices: DeviceSettings, name: str) -> Path:
    """Return the lock that the worker of a device holds."""
    return devices.lock_folder / f"{name}.worker.lock"


def device_info(name: str, devices: DeviceSettings) -> DeviceInfo:
    """Return the device that a worker of this host serves under this name."""
    kind = name.partition(":")[0]
    lanes: tuple[Lane, ...] = (Lane.CPU,) if kind == "cpu" else (Lane.GPU,)
    if kind == "cpu" and devices.accelerator_engine is None:
        # Where accelerators have an engine of their own, a document that waits for one is not to be read by two.
        lanes = (Lane.CPU, Lane.GPU)
    total = os.environ.get(TOTAL_BYTES_VARIABLE) if kind != "cpu" else None
    return DeviceInfo(
        host=socket.gethostname(), name=name, kind=kind, lanes=lanes, total_bytes=int(total) if total else None
    )


def device_owner(devices: DeviceSettings, name: str) -> str:
    """Return the name under which whoever holds the device's lock file owns the device's row.

    The file's identity, not the process's: a worker that replaces a killed one holds the same lock and goes on at once;
    one that sees another file (another container under the same host name) is someone else.
    """
    path = device_lock(devices, name)
    return f"{socket.gethostname()}:{path}#{path.stat().st_ino}"


METRICS: MetricsServer | None = None
"""The port that the worker has bound, for its children to let go of."""


@dataclass(slots=True)
class _State:
    wiring: Wiring
    supervisor: Supervisor | None = None
    holds: threading.Event = field(default_factory=threading.Event)
    """Whether the device's row is ours; without it nothing is taken."""
    asked_to_drain: threading.Event = field(default_factory=threading.Event)
    """By somebody who drains the device, not the worker."""
    stopping: threading.Event = field(default_factory=threading.Event)
    published: set[str] = field(default_factory=set)
    """Engines of which it was said what they take of the device, if there is something to be said."""


_state: _State | None = None


def begin() -> None:
    """Set this process up; called by Celery in each new child."""
    global _state  # noqa: PLW0603 - see the module's docstring
    settings = read_settings()
    name = os.environ.get(NAME_VARIABLE, "worker")
    if METRICS:
        # It was forked along; this process counts, and its parent answers.
        METRICS.close()
    meter = _meter()
    configure_logs(settings.log, count=meter.line_logged, worker=name)
    _state = _State(Wiring(settings, actor=name, meter=traced(meter, settings.traces, process=name)))
    if device := os.environ.get(DEVICE_VARIABLE):
        _serve_device(_state, device)


def _meter() -> "PrometheusMeter":
    # Only now: the worker has named by then where the counts go, which the library asks once.
    from pipeline.monitoring.counting import PrometheusMeter  # noqa: PLC0415

    return PrometheusMeter()


def end() -> None:
    """End the runner and give the device back; called by Celery when a child stops in order."""
    if _state is None:
        return
    _state.stopping.set()
    if _state.supervisor:
        _state.supervisor.replace()
        devices = _state.wiring.settings.devices
        name = os.environ[DEVICE_VARIABLE]
        try:
            _state.wiring.devices.release(device_info(name, devices).id, device_owner(devices, name))
        except PipelineError as error:
            log.warning("device_not_released", detail=error.message)
    _state.wiring.meter.close()


def wiring() -> Wiring:
    """Return what this process works with."""
    return _begun().wiring


def recognise() -> Recognise:
    """Return the step, over this process's device."""
    state = _begun()
    if state.supervisor is None:
        raise RuntimeError("this worker serves no device: start it with --device, or leave it off the device queues")
    return Recognise(
        chunks=state.wiring.chunks,
        device=state.supervisor,
        limits=state.wiring.limits,
        lease=state.wiring.settings.leases.chunk,
        draining=lambda: _takes_nothing(state),
        jitter=random.random,
        meter=state.wiring.meter,
        other_engine=_other_engine(state.wiring.settings.devices, os.environ[DEVICE_VARIABLE]),
    )


def render() -> Render:
    """Return the step."""
    return _begun().wiring.render


def _begun() -> _State:
    if _state is None:
        raise RuntimeError("the worker's child was not set up: worker_process_init did not run")
    return _state


def _serve_device(state: _State, name: str) -> None:
    settings = state.wiring.settings
    info, owner = device_info(name, settings.devices), device_owner(settings.devices, name)
    devices = state.wiring.devices

    def describe(engine: EngineIdentity, measured: Measured) -> None:
        try:
            devices.describe(info.id, owner, engine, measured)
            if engine.name not in state.published:
                # Its model may have come to this host with its runner.
                _publish(state, info, owner)
                state.published.add(engine.name)
        except PipelineError as error:
            log.warning("device_not_described", device=info.id, detail=error.message)

    state.supervisor = Supervisor(
        info.id,
        RunnerCommand(
            engine=_engine_for(info, settings.devices),
            lock=settings.devices.lock_folder / f"{name}.lock",
            folder=settings.devices.temporary_folder / name.replace(":", "-"),
            niceness=settings.devices.cpu_niceness if info.kind == "cpu" else 0,
            core={f"cpu:{slot}": core for slot, core in enumerate(settings.devices.cpu_cores)}.get(name),
        ),
        Patience(warm_up=settings.leases.warm_up, stall=settings.leases.stall),
        flush_pages=settings.chunks.flush_pages,
        bounds=_memory_bounds(info, settings.devices),
        view=view_of(name),
        budget=DeviceBudget(
            device=f"{info.kind} {info.total_bytes or ''}".strip(),
            total_bytes=info.total_bytes,
            model_of=lambda engine: memory_of(engine, settings.devices.engine_options.get(engine, {})),
            learnt=state.wiring.engine_memory,
            other_engine_of=settings.devices.other_engine.get,
        ),
        health=Health(sick_after=settings.devices.sick_after, probe_every=settings.devices.probe_every),
        described=describe,
    )
    _hold(state, info, owner)
    # From this thread, the main one: the runner dies with the thread that started it.
    state.supervisor.attend()
    threading.Thread(target=_keep_device, args=(state, info, owner, settings), name="device", daemon=True).start()


def _memory_bounds(info: DeviceInfo, devices: DeviceSettings) -> MemoryBounds:
    of_host, of_accelerator = devices.baseline_tolerance_bytes, devices.accelerator_tolerance_bytes
    return MemoryBounds(
        most_bytes=devices.max_runner_bytes,
        foreign_bytes=devices.foreign_tolerance_bytes,
        tolerance_bytes=of_host if info.kind == "cpu" else of_accelerator,
    )


def _engine_for(info: DeviceInfo, devices: DeviceSettings) -> str:
    return devices.engine if info.kind == "cpu" else devices.accelerator_engine or devices.engine


def _other_engine(devices: DeviceSettings, name: str) -> Callable[[str | None], str | None]:
    usual = _engine_for(device_info(name, devices), devices)
    return lambda engine: devices.other_engine.get(engine or usual)


def _keep_device(state: _State, info: DeviceInfo, owner: str, settings: Settings) -> None:
    """Keep a runner warm, keep the device's row and hear of drains, until the worker stops.

    The lease says that the worker lives, not that pages move on; chunks have leases for that.
    """
    consumers = Consumers(os.environ.get(QUEUES_VARIABLE, "").split(","), node=os.environ[NAME_VARIABLE])
    every: timedelta = settings.leases.device / _KEEPINGS_IN_A_LEASE
    while not state.stopping.wait(every.total_seconds()):
        if state.supervisor:
            state.supervisor.attend()
        _hold(state, info, owner)
        consumers.keep(consuming=not _takes_nothing(state))


def _hold(state: _State, info: DeviceInfo, owner: str) -> None:
    """Take the device's row, or keep it, and hear of drains; what can't be done now is tried again at the next look.

    A child may begin while the database is away. If it gave up then, it would go on to take messages and lose them.
    """
    devices = state.wiring.devices
    try:
        held = state.holds.is_set()
        standing = _renewed(state, info, owner) if held else devices.acquire(info, owner)
        if not held:
            _publish(state, info, owner)
    except DeviceHeld as held_by_another:
        log.warning("device_held", device=info.id, detail=str(held_by_another))
        return
    except PipelineError as error:
        log.warning("device_lease_not_renewed", device=info.id, detail=error.message)
        return
    match standing:
        case Standing.LOST:
            state.holds.clear()
            log.error("device_lost", device=info.id, owner=owner)
        case Standing.DRAIN:
            state.holds.set()
            state.asked_to_drain.set()
        case Standing.SERVE:
            state.holds.set()
            state.asked_to_drain.clear()
        case _:
            assert_never(standing)


def _publish(state: _State, info: DeviceInfo, owner: str) -> None:
    """Show what engines take of an accelerator, for those who plan and have no models. Raises: Transient."""
    if info.total_bytes is None:
        return
    options = state.wiring.settings.devices.engine_options
    known = {name: memory_of(name, options.get(name, {})) for name in engine_names()}
    needs = {name: model for name, model in known.items() if model is not None}
    state.wiring.devices.publish(info.id, owner, needs)
    state.published = set(needs)


def _renewed(state: _State, info: DeviceInfo, owner: str) -> Standing:
    supervisor = state.supervisor
    problem = supervisor.problem() if supervisor else "it has no supervisor"
    return state.wiring.devices.renew(
        info.id,
        owner,
        _shown(state, problem),
        problem=problem,
        free_bytes=supervisor.free_bytes if supervisor else None,
    )


def _takes_nothing(state: _State) -> bool:
    problem = state.supervisor.problem() if state.supervisor else None
    return not state.holds.is_set() or DRAIN.is_set() or state.asked_to_drain.is_set() or problem is not None


def _shown(state: _State, problem: str | None) -> DeviceState:
    if DRAIN.is_set() or state.asked_to_drain.is_set():
        return DeviceState.DRAINING
    if state.supervisor is None or problem:
        return DeviceState.SICK
    return DeviceState.BUSY if state.supervisor.is_reading else DeviceState.FREE
