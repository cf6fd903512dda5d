"""What a stack consists of beside its servers: the processes that do the work, and what each is told."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from pipeline.embedded.ports import LOOPBACK
from pipeline.embedded.process import Probe, ProcessSpec
from pipeline.embedded.services import Servers
from pipeline.embedded.state import ApiAccess, FlowerAccess

_WORK_LAYER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPorts:
    """Where the API of a stack listens."""

    callers: int
    administrators: int


FLOWER_USER = "muniment"


def pipeline_processes(env: Mapping[str, str], *, dispatchers: int = 1) -> list[ProcessSpec]:
    """Return the processes that move and read documents, in the order of `status`."""
    # Where metrics are asked for, one process answers for all.
    env = {**env, "MUNIMENT_METRICS__PORT": "0"}
    return [
        *(_process(dispatcher_name(number), "dispatcher", env=env) for number in range(dispatchers)),
        _process("io", "worker", "--queues", "io,render", "--name", "io", "--concurrency", "2", env=env),
        # Starts one worker for each device, and ends them.
        _process("launcher", "launcher", env=env),
    ]


def metrics_process(env: Mapping[str, str]) -> ProcessSpec:
    """Return what serves the metrics of the whole stack."""
    return _process("metrics", "metrics", env=env)


def dispatcher_name(number: int) -> str:
    """Return what a dispatcher, counted from 0, is called among the processes of its stack."""
    return "dispatcher" if number == 0 else f"dispatcher-{number + 1}"


def flower_process(env: Mapping[str, str], *, home: Path, port: int, password: str) -> tuple[ProcessSpec, FlowerAccess]:
    """Return Flower and how to reach it; all of it by environment, since a command line is public."""
    options = {
        "FLOWER_ADDRESS": LOOPBACK,
        "FLOWER_PORT": str(port),
        "FLOWER_BASIC_AUTH": f"{FLOWER_USER}:{password}",
        "FLOWER_PERSISTENT": "true",
        "FLOWER_DB": str(home / "flower.db"),
        "FLOWER_STATE_SAVE_INTERVAL": "30000",
        "FLOWER_MAX_TASKS": "20000",
        "FLOWER_PURGE_OFFLINE_WORKERS": "3600",
        "FLOWER_READ_ONLY": "true",
    }
    access = FlowerAccess(url=f"http://{LOOPBACK}:{port}", user=FLOWER_USER, password=password)
    return _process("flower", "flower", env={**env, **options}), access


def api_process(env: Mapping[str, str], *, ports: ApiPorts, key: str) -> tuple[ProcessSpec, ApiAccess]:
    """Return the HTTP API, on loopback, and how to reach it."""
    options = {
        "MUNIMENT_API__HOST": LOOPBACK,
        "MUNIMENT_API__PORT": str(ports.callers),
        "MUNIMENT_API__ADMIN_HOST": LOOPBACK,
        "MUNIMENT_API__ADMIN_PORT": str(ports.administrators),
        # Where metrics are asked for, one process answers for all.
        "MUNIMENT_METRICS__PORT": "0",
    }
    access = ApiAccess(
        url=f"http://{LOOPBACK}:{ports.callers}",
        admin_url=f"http://{LOOPBACK}:{ports.administrators}",
        key=key,
    )
    return replace(_process("api", "api", env={**env, **options}), ready=_listens(ports.callers)), access


def _listens(port: int) -> Probe:
    async def listens(_pid: int) -> bool:
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    return listens


def server_environment(home: Path, servers: Servers) -> dict[str, str]:
    """Return the settings of these servers as environment variables, the first source that `Settings` asks."""
    database, broker, objects = servers.database, servers.broker, servers.objects
    return {
        "MUNIMENT_HOME": str(home),
        "MUNIMENT_DATABASE__URL": database.url.get_secret_value() if database.url else "",
        "MUNIMENT_BROKER__URL": broker.url.get_secret_value() if broker.url else "",
        "MUNIMENT_BROKER__KEY_PREFIX": broker.key_prefix,
        "MUNIMENT_OBJECTS__ENDPOINT": objects.endpoint or "",
        "MUNIMENT_OBJECTS__ACCESS_KEY": objects.access_key,
        "MUNIMENT_OBJECTS__SECRET_KEY": objects.secret_key.get_secret_value(),
        "MUNIMENT_OBJECTS__BUCKET": objects.bucket,
        "MUNIMENT_OBJECTS__REGION": objects.region,
        "MUNIMENT_OBJECTS__SECURE": str(objects.secure).lower(),
    }


def process_environment(home: Path, servers: Servers, *, cpu_slots: int | None) -> dict[str, str]:
    """Return the whole environment of a pipeline process."""
    devices = {} if cpu_slots is None else {"MUNIMENT_DEVICES__CPU_SLOTS": str(cpu_slots)}
    return {
        **os.environ,
        **server_environment(home, servers),
        **devices,
        # A slot is one thread.
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        # `python -m` would look for modules in the working directory first, and that is the user's.
        "PYTHONSAFEPATH": "1",
    }


def _process(name: str, *command: str, env: Mapping[str, str]) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        argv=(sys.executable, "-m", "pipeline.cli", *command),
        env=env,
        # Relative paths in settings mean the same to all.
        folder=Path.cwd(),
        layer=_WORK_LAYER,
        # A page in hand is finished; what is lost when it is not, the sweep finds.
        stop_grace=timedelta(seconds=20),
    )
