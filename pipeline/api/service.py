"""What one process of the API works with, put together once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from cachetools import TTLCache
from fastapi import Depends, Request
from sqlalchemy import Engine

from pipeline.adapters.api_keys import PostgresApiKeys
from pipeline.adapters.control import PostgresControl
from pipeline.adapters.database import acting, connect
from pipeline.adapters.delivery_log import PostgresDeliveryLog
from pipeline.adapters.devices import PostgresDeviceBoard
from pipeline.adapters.forecasts import PostgresForecasts
from pipeline.adapters.job_views import PostgresJobViews
from pipeline.adapters.multipart_uploads import S3MultipartUploads
from pipeline.adapters.objects import Links, S3Objects
from pipeline.adapters.rate_limits import RateLimits
from pipeline.adapters.reasons import PostgresReasons
from pipeline.adapters.removals import PostgresRemovals
from pipeline.adapters.reviews import PostgresReview
from pipeline.adapters.submissions import PostgresSubmissions
from pipeline.adapters.uploads import PostgresUploads
from pipeline.api import schemas
from pipeline.api.callers import Caller, Doorkeeper
from pipeline.api.feed import Feed
from pipeline.api.gathering import Gathered
from pipeline.api.intake import Intake
from pipeline.api.metrics import Metrics
from pipeline.api.page_images import PageImages
from pipeline.api.problems import not_found
from pipeline.domain.document import JobId
from pipeline.domain.forecast import Forecast
from pipeline.ports.job_views import Progress
from pipeline.ports.submissions import EventRow, JobStatus
from pipeline.settings import Settings, SettingsError
from pipeline.steps.delete import Delete

_MOVES_AT_ONCE = 200
_OUTLOOK_HOLDS_S = 1.0
_MOST_OUTLOOKS = 10_000


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What a job waits for and how long it may take, and the job as it was then, its pages aside."""

    job: JobStatus
    waits_for: str | None
    forecast: Forecast | None


class Service:
    """Rows, store and counters of a running system."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        database, api = settings.database.url, settings.api
        if database is None or settings.objects.endpoint is None or settings.broker.url is None:
            raise SettingsError("the API needs database.url, broker.url and objects.endpoint, or a stack that is up")
        self.settings = settings
        self.metrics = metrics
        self.engine: Engine = connect(
            database.get_secret_value(), actor="muniment api", pool_size=settings.api.connections
        )
        self.keys = PostgresApiKeys(self.engine)
        self.submissions = PostgresSubmissions(self.engine)
        self.views = PostgresJobViews(self.engine)
        self.review = PostgresReview(self.engine)
        self.reasons = PostgresReasons(self.engine)
        self.forecasts = PostgresForecasts(self.engine)
        self.deliveries = PostgresDeliveryLog(self.engine)
        self.objects = S3Objects(settings.objects)
        self.uploads = S3MultipartUploads(settings.objects)
        self.open_uploads = PostgresUploads(self.engine)
        self.intake = Intake(self.uploads, at_once=api.max_uploads, max_bytes=settings.limits.max_file_bytes)
        self.links = Links(settings.objects, endpoint=api.store_endpoint, secure=api.store_secure)
        self.page_images = PageImages(self.objects, settings)
        self.rates = RateLimits(settings.broker)
        self.feed = Feed(database.get_secret_value(), self.views.progress)
        self.found: Gathered[tuple[str, JobId], JobStatus | None] = Gathered(self._found)
        self.counted: Gathered[JobId, Progress | None] = Gathered(self._counted)
        self.details: Gathered[tuple[str, JobId], bytes | None] = Gathered(self._details)
        # Looked at as seldom, however many ask; the job itself is always as it is now.
        self._outlooks: TTLCache[JobId, _Outlook] = TTLCache(_MOST_OUTLOOKS, _OUTLOOK_HOLDS_S)
        self.moves: Gathered[tuple[JobId, int], list[EventRow]] = Gathered(self._moves)
        self.doorkeeper = Doorkeeper(self.keys, self.rates, requests_per_minute=api.requests_per_minute)

    def submissions_of(self, caller: Caller) -> PostgresSubmissions:
        """Return where a caller hands in, recorded as its doing."""
        return PostgresSubmissions(acting(self.engine, caller.actor))

    def control_of(self, caller: Caller) -> PostgresControl:
        """Return what a caller changes jobs by, recorded as its doing."""
        return PostgresControl(acting(self.engine, caller.actor))

    def delete_of(self, caller: Caller) -> Delete:
        """Return what a caller deletes jobs by, recorded as its doing."""
        return Delete(rows=PostgresRemovals(acting(self.engine, caller.actor)), objects=self.objects)

    def deliveries_of(self, caller: Caller) -> PostgresDeliveryLog:
        """Return what a caller replays webhooks by, recorded as its doing."""
        return PostgresDeliveryLog(acting(self.engine, caller.actor))

    def devices_of(self, caller: Caller) -> PostgresDeviceBoard:
        """Return what a caller sees and drains devices by, recorded as its doing."""
        return PostgresDeviceBoard(acting(self.engine, caller.actor))

    def job(self, caller: Caller, job_id: JobId) -> JobStatus:
        """Return a job of the caller's tenant. Raises: Problem, for another's as for none."""
        found = self.submissions.find([job_id], tenant=caller.tenant)
        if not found:
            raise not_found()
        return found[0]

    def _found(self, asked: Sequence[tuple[str, JobId]]) -> list[JobStatus | None]:
        """Return jobs, each asked for by a tenant; None for another's as for none."""
        found = {status.job_id: status for status in self.submissions.find(list({job_id for _, job_id in asked}))}
        return [
            found[job_id] if job_id in found and found[job_id].tenant == tenant else None for tenant, job_id in asked
        ]

    def _details(self, asked: Sequence[tuple[str, JobId]]) -> list[bytes | None]:
        """Return the same as callers see them."""
        found = self._found(asked)
        told = {status.job_id: self._detail(status) for status in found if status}
        return [told[status.job_id] if status else None for status in found]

    def _counted(self, asked: Sequence[JobId]) -> list[Progress | None]:
        counted = self.views.progress(list(set(asked)))
        return [counted.get(job_id) for job_id in asked]

    def _moves(self, asked: Sequence[tuple[JobId, int]]) -> list[list[EventRow]]:
        """Return what happened to jobs behind an event; streams that are at the same place get one answer."""
        found = {
            place: self.views.moves(place[0], after=place[1], limit=_MOVES_AT_ONCE) for place in dict.fromkeys(asked)
        }
        return [found[place] for place in asked]

    def _detail(self, status: JobStatus) -> bytes:
        outlook = self._outlook(status)
        forecast = schemas.forecast_fields(outlook.forecast)
        detail = schemas.JobDetail(**schemas.job_fields(status), waits_for=outlook.waits_for, **forecast)
        return detail.model_dump_json().encode()

    def _outlook(self, status: JobStatus) -> _Outlook:
        job = replace(status, outcomes={})
        held = self._outlooks.get(job.job_id)
        if held is not None and held.job == job:
            return held
        is_open = not job.state.is_terminal
        outlook = _Outlook(
            job=job,
            waits_for=self.reasons.waits_for(job.job_id) if is_open else None,
            forecast=self.forecasts.of(job.job_id) if is_open else None,
        )
        self._outlooks[job.job_id] = outlook
        return outlook

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()
        self.rates.close()
        self.page_images.close()


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(_service)]
