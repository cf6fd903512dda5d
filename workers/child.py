"""What a Celery child holds: its wiring and, if it serves a device, the supervisor of that device's runner.

Process-wide by nature: Celery gives its tasks no other place. Made after the fork, by `begin`.
"""

import mmap
import os
import random
import socket
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import structlog

from pipeline.domain.document import Lane
from pipeline.domain.errors import PipelineError
from pipeline.domain.states import DeviceState
from pipeline.logs import configure_logs
from pipeline.ports.devices import DeviceInfo
from pipeline.settings import DeviceSettings, Settings, read_settings
from pipeline.steps.recognise import Recognise
from pipeline.steps.render import Render
from workers.supervisor import Patience, RunnerCommand, Supervisor
from workers.wiring import Wiring

log = structlog.get_logger()

DEVICE_VARIABLE = "MUNIMENT_DEVICE"
"""Names the device that this worker serves, e.g. `cpu:0`; unset in workers that serve none."""
NAME_VARIABLE = "MUNIMENT_WORKER"


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


def device_info(name: str) -> DeviceInfo:
    """Return the device that a worker of this host serves under this name."""
    kind = name.partition(":")[0]
    lanes = (Lane.CPU, Lane.GPU) if kind == "cpu" else (Lane.GPU,)
    return DeviceInfo(host=socket.gethostname(), name=name, kind=kind, lanes=lanes)


def device_owner(devices: DeviceSettings, name: str) -> str:
    """Return the name under which whoever holds the device's lock file owns the device's row.

    The file's identity, not the process's: a worker that replaces a killed one holds the same lock and goes on at once;
    one that sees another file (another container under the same host name) is someone else.
    """
    path = device_lock(devices, name)
    return f"{socket.gethostname()}:{path}#{path.stat().st_ino}"


@dataclass(slots=True)
class _State:
    wiring: Wiring
    supervisor: Supervisor | None = None
    stopping: threading.Event = field(default_factory=threading.Event)


_state: _State | None = None


def begin() -> None:
    """Set this process up; called by Celery in each new child."""
    global _state  # noqa: PLW0603 - see the module's docstring
    settings = read_settings()
    name = os.environ.get(NAME_VARIABLE, "worker")
    configure_logs(settings.log, worker=name)
    _state = _State(Wiring(settings, actor=name))
    if device := os.environ.get(DEVICE_VARIABLE):
        _serve_device(_state, device)


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
            _state.wiring.devices.release(device_info(name).id, device_owner(devices, name))
        except PipelineError as error:
            log.warning("device_not_released", detail=error.message)


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
        draining=DRAIN.is_set,
        jitter=random.random,
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
    info, owner = device_info(name), device_owner(settings.devices, name)
    devices = state.wiring.devices
    devices.acquire(info, owner)
    state.supervisor = Supervisor(
        info.id,
        RunnerCommand(
            engine=settings.devices.engine,
            lock=settings.devices.lock_folder / f"{name}.lock",
            folder=settings.devices.temporary_folder / name.replace(":", "-"),
        ),
        Patience(warm_up=settings.leases.warm_up, stall=settings.leases.stall),
        flush_pages=settings.chunks.flush_pages,
        max_resident_bytes=settings.devices.max_runner_bytes,
        described=lambda engine, measured: devices.describe(info.id, owner, engine, measured),
    )
    # From this thread, the main one: the runner dies with the thread that started it.
    state.supervisor.start()
    threading.Thread(target=_keep_device, args=(state, info.id, owner, settings), name="device", daemon=True).start()


def _keep_device(state: _State, device_id: str, owner: str, settings: Settings) -> None:
    """Renew the device's lease. It says that the worker lives, not that pages move on; chunks have leases for that."""
    every: timedelta = settings.leases.device / 3
    while not state.stopping.wait(every.total_seconds()):
        shown = DeviceState.DRAINING if DRAIN.is_set() else _shown(state)
        try:
            if not state.wiring.devices.renew(device_id, owner, shown):
                log.error("device_lost", device=device_id, owner=owner)
        except PipelineError as error:
            log.warning("device_lease_not_renewed", device=device_id, detail=error.message)


def _shown(state: _State) -> DeviceState:
    return DeviceState.BUSY if state.supervisor and state.supervisor.is_reading else DeviceState.FREE
