"""Servers of a test's own, run as the product runs them, to be stopped, frozen and killed."""

import asyncio
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from pipeline.embedded.ports import PortPicker
from pipeline.embedded.postgres import database_url, postgres_spec
from pipeline.embedded.prepare import prepare_bucket, prepare_database
from pipeline.embedded.process import Account, ProcessSpec, kill_group, spawn
from pipeline.embedded.seaweed import SeaweedPorts, endpoint, remove_sockets, seaweed_spec
from pipeline.embedded.valkey import broker_url, valkey_spec
from pipeline.settings import ObjectSettings
from tests.waiting import eventually

PASSWORD = "of-a-test"


class Server:
    """One server process; each start is at the same address, over the same data."""

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def start(self) -> None:
        log = os.open(self.spec.folder / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            self._process = spawn(self.spec, log)
        finally:
            os.close(log)
        ready = self.spec.ready
        assert ready
        eventually(lambda: asyncio.run(ready(self.pid)))

    def stop(self) -> None:
        """Stop it in order."""
        self._end(self.spec.stop_signal)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def close(self) -> None:
        if self._process:
            kill_group(self.pid)
            self._process.wait()

    def _end(self, sig: signal.Signals) -> None:
        assert self._process
        self._process.send_signal(sig)
        self._process.wait(60)


class Broker(Server):
    """Valkey."""

    def __init__(self, folder: Path) -> None:
        port = PortPicker(folder).pick()
        super().__init__(valkey_spec(folder, port=port, password=PASSWORD))
        self.url = broker_url(port=port, password=PASSWORD)

    def forget(self) -> None:
        """Remove its data, while it is stopped."""
        shutil.rmtree(self.spec.folder / "appendonlydir")


class Database(Server):
    """Postgres, with the newest schema."""

    def __init__(self, folder: Path) -> None:
        port = PortPicker(folder).pick()
        super().__init__(postgres_spec(folder, port=port, password=PASSWORD, max_connections=50))
        self.url = database_url(port=port, password=PASSWORD)

    def start(self) -> None:
        super().start()
        prepare_database(self.url)


class Store(Server):
    """SeaweedFS, with a bucket; a prefix runs it in surroundings of its own, such as a small disk."""

    def __init__(self, folder: Path, *, prefix: tuple[str, ...] = ()) -> None:
        self._ports = SeaweedPorts.pick(PortPicker(folder))
        spec = seaweed_spec(folder / "data", ports=self._ports, access_key=PASSWORD, secret_key=PASSWORD)
        super().__init__(replace(spec, folder=folder, account=Account(prefix=prefix)))
        self.settings = ObjectSettings(
            endpoint=endpoint(self._ports), access_key=PASSWORD, secret_key=SecretStr(PASSWORD), bucket="of-a-test"
        )

    def start(self) -> None:
        super().start()
        prepare_bucket(self.settings)

    def close(self) -> None:
        super().close()
        remove_sockets(self._ports)
