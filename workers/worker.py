"""One Celery worker: `python -m workers.worker`, or `muniment worker`. With a device it serves that device alone."""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from celery.signals import heartbeat_sent, setup_logging, worker_ready

from pipeline.cores import check_to_be_had
from pipeline.logs import configure_logs
from pipeline.monitoring.serving import Beat, MetricsServer, shared_folder
from pipeline.settings import Settings, read_settings
from pipeline.starting import ExitCode, exit_code_of
from workers import child
from workers.app import QUEUES, create_app
from workers.process import DeviceLocked, lock_device
from workers.startup import check_services

_NO_HEARTBEAT = timedelta(seconds=30)
"""A worker sends one every two seconds while it is connected."""


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="muniment worker", description=__doc__)
    parser.add_argument("--queues", help=f"comma-separated, of {', '.join(QUEUES)}")
    parser.add_argument("--name", help="the node's name, unique on this host")
    parser.add_argument("--concurrency", type=int, default=1, help="processes; a device always has one")
    parser.add_argument("--device", help="the device to serve, e.g. cpu:0")
    known = parser.parse_args(argv)
    if not known.queues and not known.device:
        parser.error("say what to serve: --queues io,render, or --device cpu:0")
    unknown = set((known.queues or "").split(",")) - {*QUEUES, ""}
    if unknown:
        parser.error(f"unknown queues: {', '.join(sorted(unknown))}; there are {', '.join(QUEUES)}")
    return known


def run(settings: Settings, known: argparse.Namespace) -> None:
    """Serve until told to stop.

    Raises: DeviceLocked, if another worker of this host serves the device; SettingsError, Unfit.
    """
    name = known.name or (known.device or "worker").replace(":", "")
    os.environ[child.NAME_VARIABLE] = name
    queues, concurrency = known.queues, known.concurrency
    if known.device:
        check_to_be_had(settings.devices.cpu_cores)
        # Inherited by the pool's children, so the lock is free only once all of this worker is gone.
        descriptor = lock_device(child.device_lock(settings.devices, known.device))
        os.set_inheritable(descriptor, True)
        os.environ[child.DEVICE_VARIABLE] = known.device
        queues = queues or ",".join(child.device_info(known.device, settings.devices).lanes)
        concurrency = 1
    os.environ[child.QUEUES_VARIABLE] = queues
    configure_logs(settings.log, worker=name)
    check_services(settings)
    setup_logging.connect(_keep_our_logs)
    _serve_metrics(settings, name)
    app = create_app(settings)
    app.set_current()
    app.worker_main(
        [
            "worker",
            f"--queues={queues}",
            f"--concurrency={concurrency}",
            f"--hostname={name}@%h",
            f"--loglevel={settings.log.level}",
            "--without-mingle",
            "--without-gossip",
            "--events",
        ]
    )


def _serve_metrics(settings: Settings, name: str) -> None:
    """Count in the pool's children and answer here, once there are such. Raises: SettingsError."""
    shared_folder(settings.metrics, settings.devices.temporary_folder / f"metrics-{name}")
    connected = Beat("the connection to the broker", within=_NO_HEARTBEAT)
    child.METRICS = server = MetricsServer(settings.metrics, connected.problem)
    heartbeat_sent.connect(connected, weak=False)
    worker_ready.connect(lambda **_: server.start(), weak=False)


def _keep_our_logs(**_: Any) -> None:
    """Be there: with a receiver, Celery sets up no logs of its own."""


def main() -> int:
    """Run the worker of the command line."""
    known = arguments(sys.argv[1:])
    try:
        return exit_code_of("worker", lambda: run(read_settings(), known))
    except DeviceLocked as error:
        sys.stderr.write(f"muniment worker: {error}; stop that worker first, or name another device\n")
        return ExitCode.DEVICE_HELD


if __name__ == "__main__":
    sys.exit(main())
