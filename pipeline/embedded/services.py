"""Starts the three embedded servers: Valkey, Postgres and SeaweedFS, side by side, on free ports of the loopback."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from pipeline.embedded.credentials import Credentials
from pipeline.embedded.errors import ProcessFailed
from pipeline.embedded.ports import PortPicker
from pipeline.embedded.postgres import database_url, postgres_spec
from pipeline.embedded.seaweed import SeaweedPorts, endpoint, remove_sockets, seaweed_spec
from pipeline.embedded.supervisor import Supervisor
from pipeline.embedded.valkey import broker_url, set_damaged_aside, valkey_spec
from pipeline.settings import BrokerSettings, DatabaseSettings, ObjectSettings, Settings

_Where = TypeVar("_Where")

_PORT_ATTEMPTS = 4
_PORT_TAKEN = ("address already in use", "port allocation failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What a test run sets differently from a person's stack."""

    fsync: bool = True
    max_connections: int = max(100, 50 + 8 * (os.cpu_count() or 1))
    """A process of ours keeps two, and each core has a worker of several processes."""
    broker_databases: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Where the three are, embedded or not."""

    database: DatabaseSettings
    broker: BrokerSettings
    objects: ObjectSettings

    def as_settings(self) -> dict[str, dict[str, str]]:
        """Return them in the shape of `Settings`, secrets in the clear, for a file that only its owner can read."""
        return {
            "database": {"url": _clear(self.database.url)},
            "broker": {"url": _clear(self.broker.url)},
            "objects": {
                "endpoint": self.objects.endpoint or "",
                "access_key": self.objects.access_key,
                "secret_key": _clear(self.objects.secret_key),
                "bucket": self.objects.bucket,
            },
        }


class EmbeddedServers:
    """Adds servers to a supervisor, for those that the settings don't name."""

    def __init__(self, supervisor: Supervisor, home: Path, credentials: Credentials, options: ServerOptions) -> None:
        self._supervisor = supervisor
        self._home = home
        self._credentials = credentials
        self._options = options
        self._ports = PortPicker(home)
        self._seaweed_ports: SeaweedPorts | None = None

    async def start(self, settings: Settings) -> Servers:
        """Start what is missing, all at once; return where everything is when it answers.

        Raises: ProcessFailed, ServerMissing, StackError.
        """
        try:
            async with asyncio.TaskGroup() as starts:
                broker = starts.create_task(self._broker(settings.broker))
                database = starts.create_task(self._database(settings.database))
                objects = starts.create_task(self._objects(settings.objects))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return Servers(database=database.result(), broker=broker.result(), objects=objects.result())

    def pick_port(self) -> int:
        """Return a free port for one more server of the stack. Raises: OSError."""
        return self._ports.pick()

    def clean_up(self) -> None:
        """Remove what the servers leave outside the home; called when they are gone."""
        if self._seaweed_ports:
            remove_sockets(self._seaweed_ports)

    async def _broker(self, given: BrokerSettings) -> BrokerSettings:
        if given.url:
            return given
        password = self._credentials.broker_password

        async def start() -> BrokerSettings:
            port = self._ports.pick()
            folder, databases = self._home / "valkey", self._options.broker_databases
            spec = valkey_spec(folder, port=port, password=password, databases=databases)
            try:
                await self._supervisor.start(spec)
            except ProcessFailed as error:
                if not set_damaged_aside(folder, error.log_tail):
                    raise
                await self._supervisor.start(spec)
            return given.model_copy(update={"url": SecretStr(broker_url(port=port, password=password))})

        return await on_free_ports(start)

    async def _database(self, given: DatabaseSettings) -> DatabaseSettings:
        if given.url:
            return given
        password = self._credentials.database_password

        async def start() -> DatabaseSettings:
            port = self._ports.pick()
            # In a thread, because it makes the data folder first.
            spec = await asyncio.to_thread(
                postgres_spec,
                self._home / "postgres",
                port=port,
                password=password,
                max_connections=self._options.max_connections,
                fsync=self._options.fsync,
            )
            await self._supervisor.start(spec)
            return given.model_copy(update={"url": SecretStr(database_url(port=port, password=password))})

        return await on_free_ports(start)

    async def _objects(self, given: ObjectSettings) -> ObjectSettings:
        if given.endpoint:
            return given
        access_key, secret_key = self._credentials.objects_access_key, self._credentials.objects_secret_key

        async def start() -> ObjectSettings:
            self._seaweed_ports = ports = SeaweedPorts.pick(self._ports)
            await self._supervisor.start(
                seaweed_spec(self._home / "seaweed", ports=ports, access_key=access_key, secret_key=secret_key)
            )
            return given.model_copy(
                update={
                    "endpoint": endpoint(ports),
                    "access_key": access_key,
                    "secret_key": SecretStr(secret_key),
                    "secure": False,
                }
            )

        return await on_free_ports(start)


def _clear(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""


async def on_free_ports(start: Callable[[], Awaitable[_Where]]) -> _Where:
    """Try again on other ports where somebody took one between the look and the listen."""
    for _ in range(_PORT_ATTEMPTS - 1):
        try:
            return await start()
        except ProcessFailed as error:
            if not any(sign in error.log_tail.lower() for sign in _PORT_TAKEN):
                raise
    return await start()
