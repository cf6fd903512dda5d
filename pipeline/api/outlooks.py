"""What jobs wait for and how long they may take: looked at once a second for all that are asked about."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import structlog
from cachetools import TTLCache
from starlette.concurrency import run_in_threadpool

from pipeline.domain.document import JobId
from pipeline.domain.errors import PipelineError
from pipeline.domain.forecast import Forecast
from pipeline.ports.submissions import JobStatus

log = structlog.get_logger()
_GOOD_FOR_S = 1.0
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is said of a job beside its own row."""

    waits_for: str | None = None
    forecast: Forecast | None = None


NONE = Outlook()


@dataclass(slots=True)
class _Held:
    job: JobStatus
    """As it was then, its pages aside."""
    outlook: Outlook
    looked: float
    is_asked: bool = True
    """Since it was last looked at."""


class Outlooks:
    """Lives in one event loop."""

    def __init__(self, look: Callable[[Collection[JobId]], Mapping[JobId, Outlook]]) -> None:
        """Args: look blocks, and is run in a thread; it may leave jobs out of which there is nothing to say."""
        self._look = look
        self._held: TTLCache[JobId, _Held] = TTLCache(_MOST, 2 * _GOOD_FOR_S)
        self._renewing: asyncio.Task[None] | None = None

    async def of(self, jobs: Collection[JobStatus]) -> dict[JobId, Outlook]:
        """Return what is said of each, looked at since the job last changed and not more than two seconds ago.

        Raises: PipelineError.
        """
        open_jobs = {job.job_id: replace(job, outcomes={}) for job in jobs if not job.state.is_terminal}
        if unknown := [job for job in open_jobs.values() if not self._knows(job)]:
            await self._look_at(unknown)
        said = {}
        for job_id, job in open_jobs.items():
            held = self._held.get(job_id) or _Held(job, NONE, 0.0)
            held.is_asked = True
            said[job_id] = held.outlook
            if time.monotonic() - held.looked > _GOOD_FOR_S and self._renewing is None:
                self._renewing = asyncio.create_task(self._renew())
        return said

    def _knows(self, job: JobStatus) -> bool:
        held = self._held.get(job.job_id)
        return held is not None and held.job == job

    async def _look_at(self, jobs: Collection[JobStatus]) -> None:
        looked = time.monotonic()
        seen = await run_in_threadpool(self._look, [job.job_id for job in jobs])
        for job in jobs:
            self._held[job.job_id] = _Held(job, seen.get(job.job_id, NONE), looked, is_asked=False)

    async def _renew(self) -> None:
        try:
            await self._look_at([held.job for held in self._held.values() if held.is_asked])
        except PipelineError as error:
            log.warning("outlooks_not_renewed", code=error.code, detail=error.message)
        finally:
            self._renewing = None
