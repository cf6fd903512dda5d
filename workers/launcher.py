"""The launcher: finds this host's devices and keeps one worker running for each: `muniment launcher`."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import structlog

from pipeline.embedded.supervisor import ProcessSpec, Supervisor
from pipeline.logs import configure_logs
from pipeline.settings import Settings, SettingsError, default_home, read_settings

log = structlog.get_logger()


def device_names(settings: Settings) -> list[str]:
    """Return the devices to serve: CPU slots, one for each core that this process may use unless settings say else."""
    slots = settings.devices.cpu_slots
    count = len(os.sched_getaffinity(0)) if slots is None else slots
    return [f"cpu:{index}" for index in range(count)]


def worker_of(device: str) -> ProcessSpec:
    """Return how the worker of a device is run."""
    return ProcessSpec(
        name=f"worker-{device.replace(':', '')}",
        argv=(sys.executable, "-m", "workers.worker", "--device", device),
        # One thread a slot, whichever library would like more.
        env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1"},
        folder=Path.cwd(),
        stop_grace=timedelta(seconds=15),
    )


async def serve(settings: Settings) -> None:
    """Keep the workers running until SIGTERM or SIGINT; then let each stop at its next page border."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    supervisor = Supervisor(logs=default_home() / "logs")
    devices = device_names(settings)
    log.info("launcher_started", devices=devices)
    await supervisor.start(*(worker_of(device) for device in devices))
    try:
        await stopping.wait()
    finally:
        await supervisor.stop()


def main() -> int:
    """Run the launcher."""
    try:
        settings = read_settings()
    except SettingsError as error:
        sys.stderr.write(f"muniment launcher: {error}\n")
        return 2
    configure_logs(settings.log, worker="launcher")
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
