"""A document on its way into the store, in parts; at most two of them are in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

from starlette.concurrency import run_in_threadpool

from pipeline.domain import keys
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected
from pipeline.domain.upload_parts import PART_BYTES
from pipeline.ports.objects import MultipartUploads, StoredPart


class Upload:
    """One document. What it is, is judged by its first bytes, before more is taken in."""

    def __init__(
        self, store: MultipartUploads, *, judge: Callable[[bytes], str], head_bytes: int, max_bytes: int
    ) -> None:
        self.key = keys.upload(uuid4())
        self.size_bytes = 0
        self._store = store
        self._judge = judge
        self._head_bytes = head_bytes
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._is_judged = False
        self._upload_id: str | None = None
        self._on_its_way: asyncio.Task[StoredPart] | None = None
        self._parts: list[StoredPart] = []

    async def write(self, data: bytes) -> None:
        """Take more of it. Raises: Rejected, as soon as it is known that it can't be taken; Transient."""
        self.size_bytes += len(data)
        if self.size_bytes > self._max_bytes:
            raise Rejected(
                ErrorCode.FILE_TOO_LARGE,
                f"the file has more than {self._max_bytes} bytes (limits.max_file_bytes): split it up first",
            )
        self._buffer += data
        if not self._is_judged and len(self._buffer) >= self._head_bytes:
            self._judge_head()
        while len(self._buffer) >= PART_BYTES:
            await self._send(bytes(memoryview(self._buffer)[:PART_BYTES]))
            del self._buffer[:PART_BYTES]

    async def finish(self) -> str:
        """Make it an object and return its key. Raises: Rejected, Transient."""
        if not self._is_judged:
            self._judge_head()
        if self._upload_id is None:
            await run_in_threadpool(self._store.put_whole, self.key, bytes(self._buffer))
            return self.key
        if self._buffer:
            await self._send(bytes(self._buffer))
            self._buffer.clear()
        await self._arrived()
        await run_in_threadpool(self._store.finish, self.key, self._upload_id, self._parts)
        return self.key

    async def abandon(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(PipelineError):
            await self._arrived()
        if self._upload_id is not None:
            with contextlib.suppress(PipelineError):
                await run_in_threadpool(self._store.abort, self.key, self._upload_id)

    def _judge_head(self) -> None:
        self._judge(bytes(memoryview(self._buffer)[: self._head_bytes]))
        self._is_judged = True

    async def _send(self, part: bytes) -> None:
        if self._upload_id is None:
            self._upload_id = await run_in_threadpool(self._store.begin, self.key)
        # The next part comes in while this one goes out.
        await self._arrived()
        number = len(self._parts) + 1
        sending = run_in_threadpool(self._store.put, self.key, self._upload_id, number, part)
        self._on_its_way = asyncio.create_task(sending)

    async def _arrived(self) -> None:
        sending, self._on_its_way = self._on_its_way, None
        if sending is not None:
            self._parts.append(await sending)


@contextlib.asynccontextmanager
async def begun(upload: Upload) -> AsyncIterator[Upload]:
    """Abandon the upload if anything goes wrong, the caller's going away included."""
    try:
        yield upload
    except BaseException:
        await asyncio.shield(upload.abandon())
        raise
