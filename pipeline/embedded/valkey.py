"""The embedded broker: Valkey, or Redis where that is installed."""

import asyncio
import shutil
import signal
from pathlib import Path

from pipeline.embedded.binaries import valkey_server
from pipeline.embedded.files import private_folder, write_private
from pipeline.embedded.ports import LOOPBACK
from pipeline.embedded.process import ProcessSpec

_DAMAGED = ("reading the append only file", "aof manifest", "opening the append log file")


def valkey_spec(folder: Path, *, port: int, password: str, databases: int = 16) -> ProcessSpec:
    """Return how to run the server with its data in this folder. Raises: ServerMissing."""
    private_folder(folder)
    configuration = folder / "valkey.conf"
    write_private(
        configuration,
        f"""\
bind {LOOPBACK}
port {port}
dir "{folder}"
databases {databases}
requirepass {password}
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
""",
    )

    async def answers(_pid: int) -> bool:
        return await _ping(port, password)

    return ProcessSpec(
        name="valkey",
        argv=(str(valkey_server()), str(configuration)),
        env={"LC_ALL": "C"},
        folder=folder,
        ready=answers,
        death_signal=signal.SIGTERM,
    )


def broker_url(*, port: int, password: str, database: int = 0) -> str:
    """Return the address; the scheme stays `redis`, since kombu knows no other (celery/kombu#2245)."""
    return f"redis://:{password}@{LOOPBACK}:{port}/{database}"


def set_damaged_aside(folder: Path, log_tail: str) -> bool:
    """Move the data away if the log says that it is damaged; whether it was. All there is to lose are hints to rows."""
    data = folder / "appendonlydir"
    if not data.exists() or not any(sign in log_tail.lower() for sign in _DAMAGED):
        return False
    damaged = folder / "appendonlydir.damaged"
    if damaged.exists():
        shutil.rmtree(damaged)
    data.rename(damaged)
    return True


async def _ping(port: int, password: str) -> bool:
    try:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    try:
        writer.write(f"AUTH {password}\r\nPING\r\n".encode())
        async with asyncio.timeout(1):
            return await reader.readline() == b"+OK\r\n" and await reader.readline() == b"+PONG\r\n"
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
