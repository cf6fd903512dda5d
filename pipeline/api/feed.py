"""Tells those who watch jobs that something has happened: one LISTEN and one count a second for all in a process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import structlog
from starlette.concurrency import run_in_threadpool

from pipeline.adapters.notifications import listen
from pipeline.domain.document import JobId
from pipeline.domain.errors import PipelineError
from pipeline.ports.job_views import Progress

log = structlog.get_logger()
_COUNT_EVERY_S = 1.0


@dataclass(eq=False, slots=True)
class Watch:
    """One watcher of one job."""

    job_id: JobId
    progress: Progress | None = None
    moved: bool = True
    """Whether the trail may have more than was read of it."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, within_s: float) -> bool:
        """Wait for news, and take note of them; whether there were any in time."""
        try:
            async with asyncio.timeout(within_s):
                await self.news.wait()
        except TimeoutError:
            return False
        self.news.clear()
        return True


class Feed:
    """All watchers of a process. Lives in one event loop."""

    def __init__(self, url: str, count: Callable[[Sequence[JobId]], dict[JobId, Progress]]) -> None:
        self._url = url
        self._count = count
        self._watches: dict[JobId, set[Watch]] = {}
        self.is_closed = False

    @property
    def watchers(self) -> int:
        """Count them."""
        return sum(map(len, self._watches.values()))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen and count until the end; then let all watchers go."""
        tasks = [asyncio.create_task(listen(self._url, self._moved)), asyncio.create_task(self._count_for_ever())]
        try:
            yield
        finally:
            self.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Let all watchers go: they hear of it as news."""
        self.is_closed = True
        self._moved(None)

    @contextlib.contextmanager
    def watch(self, job_id: JobId) -> Iterator[Watch]:
        """Watch a job until the end."""
        mine = Watch(job_id)
        self._watches.setdefault(job_id, set()).add(mine)
        try:
            yield mine
        finally:
            others = self._watches[job_id]
            others.discard(mine)
            if not others:
                del self._watches[job_id]

    def _moved(self, job_id: JobId | None) -> None:
        meant = list(self._watches) if job_id is None else [job_id]
        for watch in [watch for each in meant for watch in self._watches.get(each, ())]:
            watch.moved = True
            watch.news.set()

    async def _count_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_COUNT_EVERY_S)
            if not self._watches:
                continue
            try:
                self._counted(await run_in_threadpool(self._count, list(self._watches)))
            except PipelineError as error:
                log.warning("progress_not_counted", code=error.code, detail=error.message)

    def _counted(self, seen: dict[JobId, Progress]) -> None:
        for job_id, progress in seen.items():
            for watch in self._watches.get(job_id, ()):
                if watch.progress != progress:
                    watch.progress = progress
                    watch.news.set()
