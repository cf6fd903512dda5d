"""The launcher: finds this host's devices and keeps one worker running for each: `muniment launcher`."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import structlog

from pipeline.cores import check_to_be_had
from pipeline.embedded.files import private_folder
from pipeline.embedded.state import ProcessState
from pipeline.embedded.supervisor import ProcessSpec, Supervisor
from pipeline.logs import configure_logs
from pipeline.monitoring.serving import MetricsServer, shared_folder
from pipeline.settings import DeviceSettings, Settings, default_home, read_settings
from pipeline.starting import exit_code_of
from workers.accelerators import VISIBLE_VARIABLE, Nvml, accelerators, load_nvml, names_of
from workers.child import TOTAL_BYTES_VARIABLE
from workers.startup import check_services

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A device that gets a worker."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """What its worker has beside the launcher's own: set before anything starts, for CUDA reads it once."""


def devices_to_serve(settings: DeviceSettings, environment: Mapping[str, str], nvml: Nvml | None) -> list[Served]:
    """Return the devices of this host: CPU slots, then accelerators, if there is an engine for them."""
    cores = len(settings.cpu_cores or os.sched_getaffinity(0))
    slots = cores if settings.cpu_slots is None else settings.cpu_slots
    served = [Served(name=f"cpu:{index}", environment={VISIBLE_VARIABLE: ""}) for index in range(slots)]
    if settings.accelerator_engine is None:
        return served
    served += [
        Served(name=device.name, environment={TOTAL_BYTES_VARIABLE: str(device.total_bytes)})
        for device in settings.declared
    ]
    for name, accelerator in names_of(accelerators(nvml, environment.get(VISIBLE_VARIABLE))).items():
        pinned = {
            VISIBLE_VARIABLE: accelerator.uuid,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            TOTAL_BYTES_VARIABLE: str(accelerator.total_bytes),
        }
        served.append(Served(name=name, environment=pinned))
    return served


def worker_of(device: Served) -> ProcessSpec:
    """Return how the worker of a device is run."""
    # One thread a slot, whichever library would like more.
    one_thread = {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1"}
    return ProcessSpec(
        name=f"worker-{device.name.replace(':', '')}",
        argv=(sys.executable, "-m", "workers.worker", "--device", device.name),
        # The launcher answers for what all of them count.
        env={**os.environ, **one_thread, **device.environment, "MUNIMENT_METRICS__PORT": "0"},
        folder=Path.cwd(),
        stop_grace=timedelta(seconds=15),
    )


async def serve(settings: Settings, *, echo: BinaryIO | None) -> None:
    """Keep the workers running until SIGTERM or SIGINT; then let each stop at its next page border."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    supervisor = Supervisor(logs=private_folder(default_home() / "logs"), echo=echo)
    shared_folder(settings.metrics, settings.devices.temporary_folder / "metrics-launcher")
    MetricsServer(settings.metrics, lambda: _left_down(supervisor)).start()
    devices = devices_to_serve(settings.devices, os.environ, load_nvml())
    log.info("launcher_started", devices=[device.name for device in devices])
    await supervisor.start(*(worker_of(device) for device in devices))
    try:
        await stopping.wait()
    finally:
        await supervisor.stop()


def _left_down(supervisor: Supervisor) -> str | None:
    down = [name for name, report in supervisor.reports.items() if report.state is ProcessState.DOWN]
    return f"died too often and are left down: {', '.join(down)}" if down else None


def run(settings: Settings, *, echo: BinaryIO | None) -> None:
    """Serve this host's devices until told to stop. Raises: SettingsError, Unfit."""
    configure_logs(settings.log, worker="launcher")
    check_to_be_had(settings.devices.cpu_cores)
    check_services(settings)
    asyncio.run(serve(settings, echo=echo))


def main() -> int:
    """Run the launcher of the command line."""
    parser = argparse.ArgumentParser(prog="muniment launcher", description=__doc__)
    parser.add_argument("--echo", action="store_true", help="print what the workers log, beside their log files")
    echo = sys.stderr.buffer if parser.parse_args().echo else None
    return exit_code_of("launcher", lambda: run(read_settings(), echo=echo))


if __name__ == "__main__":
    sys.exit(main())
