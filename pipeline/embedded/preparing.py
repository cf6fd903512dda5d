"""Runs the program `pipeline.embedded.prepare`: begun early, so that its imports cost no time, and told later."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from pipeline.embedded.errors import StackError
from pipeline.embedded.files import write_private
from pipeline.embedded.services import Servers


class Preparer:
    """The program, waiting for its orders or obeying them."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    async def prepare(self, servers: Servers, *, api_key: str) -> None:
        """Create what is missing on these servers; to be called once. Raises: StackError."""
        objects = servers.objects.model_dump() | {"secret_key": servers.objects.secret_key.get_secret_value()}
        url = servers.database.url.get_secret_value() if servers.database.url else None
        orders = json.dumps({"database_url": url, "objects": objects, "api_key": api_key})
        printed, _ = await self._process.communicate(orders.encode())
        write_private(self._log, printed.decode(errors="replace"))
        if self._process.returncode:
            last = "\n".join(printed.decode(errors="replace").splitlines()[-20:])
            raise StackError(f"the database or the bucket could not be prepared ({self._log}):\n{last}")


@contextlib.asynccontextmanager
async def preparer(logs: Path) -> AsyncIterator[Preparer]:
    """Start the program; it is gone at the end, and ends by itself where it gets no orders."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "pipeline.embedded.prepare",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Preparer(process, logs / "prepare.log")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
