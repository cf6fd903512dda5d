"""What one process of the API works with, put together once."""

from collections.abc import Collection, Sequence
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Engine

from pipeline.adapters.api_keys import PostgresApiKeys
from pipeline.adapters.control import PostgresControl
from pipeline.adapters.database import acting, connect
from pipeline.adapters.delivery_log import PostgresDeliveryLog
from pipeline.adapters.devices import PostgresDeviceBoard
from pipeline.adapters.forecasts import PostgresForecasts
from pipeline.adapters.job_reader import JobReader
from pipeline.adapters.job_views import PostgresJobViews
from pipeline.adapters.multipart_uploads import S3MultipartUploads
from pipeline.adapters.objects import Links, S3Objects
from pipeline.adapters.rate_limits import RateLimits
from pipeline.adapters.reasons import PostgresReasons
from pipeline.adapters.removals import PostgresRemovals
from pipeline.adapters.reviews import PostgresReview
from pipeline.adapters.submissions import PostgresSubmissions
from pipeline.adapters.uploads import PostgresUploads
from pipeline.adapters.webhook_keys import PostgresWebhookKeys
from pipeline.api import schemas
from pipeline.api.callers import Caller, Doorkeeper
from pipeline.api.feed import Feed
from pipeline.api.gathering import Gathered, in_thread
from pipeline.api.intake import Intake
from pipeline.api.metrics import Metrics
from pipeline.api.outlooks import NONE, Outlook, Outlooks
from pipeline.api.page_images import PageImages
from pipeline.api.problems import not_found
from pipeline.domain.document import JobId
from pipeline.ports.job_views import Progress
from pipeline.ports.submissions import EventRow, JobStatus
from pipeline.settings import Settings, SettingsError
from pipeline.steps.delete import Delete

_MOVES_AT_ONCE = 200
_REST_S = 0.02
"""Between two reads of how far jobs are."""


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
        self.reader = JobReader(database.get_secret_value(), actor="muniment api")
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
        self.counted: Gathered[JobId, Progress | None] = Gathered(in_thread(self._counted))
        self.details: Gathered[tuple[str, JobId], bytes | None] = Gathered(self._details, rest_s=_REST_S)
        self._outlooks = Outlooks(self._look)
        self.moves: Gathered[tuple[JobId, int], list[EventRow]] = Gathered(in_thread(self._moves))
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

    def webhook_keys_of(self, caller: Caller) -> PostgresWebhookKeys:
        """Return what a caller sees and changes keys of webhooks by, recorded as its doing."""
        return PostgresWebhookKeys(acting(self.engine, caller.actor))

    def devices_of(self, caller: Caller) -> PostgresDeviceBoard:
        """Return what a caller sees and drains devices by, recorded as its doing."""
        return PostgresDeviceBoard(acting(self.engine, caller.actor))

    def job(self, caller: Caller, job_id: JobId) -> JobStatus:
        """Return a job of the caller's tenant. Raises: Problem, for another's as for none."""
        found = self.submissions.find([job_id], tenant=caller.tenant)
        if not found:
            raise not_found()
        return found[0]

    async def _found(self, asked: Sequence[tuple[str, JobId]]) -> list[JobStatus | None]:
        """Return jobs, each asked for by a tenant; None for another's as for none."""
        found = {status.job_id: status for status in await self.reader.find(list({job_id for _, job_id in asked}))}
        return [
            found[job_id] if job_id in found and found[job_id].tenant == tenant else None for tenant, job_id in asked
        ]

    async def _details(self, asked: Sequence[tuple[str, JobId]]) -> list[bytes | None]:
        """Return the same as callers see them."""
        found = await self._found(asked)
        statuses = {status.job_id: status for status in found if status}
        outlooks = await self._outlooks.of(statuses.values())
        told = {job_id: _told(status, outlooks.get(job_id, NONE)) for job_id, status in statuses.items()}
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

    def _look(self, job_ids: Collection[JobId]) -> dict[JobId, Outlook]:
        waits_for, forecasts = self.reasons.waits_for(job_ids), self.forecasts.of(job_ids)
        return {job_id: Outlook(waits_for.get(job_id), forecasts.get(job_id)) for job_id in job_ids}

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()
        self.rates.close()
        self.page_images.close()


def _told(status: JobStatus, outlook: Outlook) -> bytes:
    detail = schemas.job_detail(status, waits_for=outlook.waits_for, forecast=outlook.forecast)
    return detail.model_dump_json().encode()


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(_service)]
