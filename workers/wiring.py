"""Puts steps, adapters and settings together, once for each process and after its fork."""

import os
import random
import secrets
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property

from sqlalchemy import Engine

from pipeline.adapters.admissions import PostgresAdmissions
from pipeline.adapters.baselines import read_baseline
from pipeline.adapters.chunks import PostgresChunkMoves
from pipeline.adapters.database import connect
from pipeline.adapters.deliveries import PostgresDeliveries
from pipeline.adapters.devices import PostgresDevices
from pipeline.adapters.documents.inspection import BoundedInspector
from pipeline.adapters.documents.rendering import BoundedRenderer
from pipeline.adapters.documents.sniff import media_type_of
from pipeline.adapters.engine_memory import PostgresEngineMemory
from pipeline.adapters.jobs import PostgresJobSteps
from pipeline.adapters.ledger import PostgresLedger
from pipeline.adapters.objects import S3Objects
from pipeline.adapters.outbound import Outbound
from pipeline.adapters.retention import PostgresRetention
from pipeline.adapters.sweeps import PostgresSweeps
from pipeline.adapters.web_sources import WebSources
from pipeline.adapters.webhook_poster import WebhookPoster
from pipeline.adapters.writers import OUTPUTS
from pipeline.domain.chunk_memory import EngineMemory
from pipeline.domain.document import Lane
from pipeline.domain.languages import Language
from pipeline.domain.profiles import Profile
from pipeline.domain.retry import AttemptLimits
from pipeline.engines.registry import memory_of, unread
from pipeline.engines.registry import names as engine_names
from pipeline.ports.baselines import Baseline
from pipeline.ports.jobs import QueueBounds
from pipeline.ports.meter import Meter, Uncounted
from pipeline.settings import Settings, SettingsError
from pipeline.steps.deliver import Deliver
from pipeline.steps.expire import Expire
from pipeline.steps.export import Export
from pipeline.steps.ingest import Ingest, SourceRules
from pipeline.steps.job_step import StepRunner
from pipeline.steps.merge import Merge
from pipeline.steps.render import Render, Renders
from pipeline.steps.send_webhooks import SendWebhooks
from pipeline.steps.split import ChunkBounds, Split

_INSPECTION_MEMORY_BYTES = 4 * 1024**3
_LONGEST_LOOK_UP = timedelta(seconds=40)
"""Resolvers bound themselves, by default to 5 s twice for each of up to three name servers."""


class Wiring:
    """What one process works with; everything is made at its first use."""

    def __init__(self, settings: Settings, *, actor: str, meter: Meter | None = None) -> None:
        self.settings = settings
        self.actor = actor
        self.meter = meter or Uncounted()
        # Names this very process on leases: a host may give a process id again.
        self.owner = f"{actor}@{socket.gethostname()}/{os.getpid()}-{secrets.token_hex(4)}"

    @cached_property
    def engine(self) -> Engine:
        """Return the connection pool."""
        return self._connected(pool_size=self.settings.database.pool_size)

    def _connected(self, *, pool_size: int) -> Engine:
        if self.settings.database.url is None:
            raise SettingsError("database.url is not set: start the embedded stack (muniment up), or name a Postgres")
        return connect(
            self.settings.database.url.get_secret_value(), actor=f"muniment {self.actor}", pool_size=pool_size
        )

    @cached_property
    def objects(self) -> S3Objects:
        """Return the store."""
        return S3Objects(self.settings.objects)

    @cached_property
    def jobs(self) -> PostgresJobSteps:
        """Return the moves of jobs."""
        return PostgresJobSteps(self.engine, owner=self.owner, lease=self.settings.leases.step)

    @cached_property
    def chunks(self) -> PostgresChunkMoves:
        """Return the moves of chunks."""
        return PostgresChunkMoves(
            self.engine,
            owner=self.owner,
            lease=self.settings.leases.chunk,
            pages_known_for=self.settings.retention.known_pages,
        )

    @cached_property
    def admissions(self) -> PostgresAdmissions:
        """Return which rows go onto the broker next."""
        return PostgresAdmissions(self.engine)

    @cached_property
    def sweeps(self) -> PostgresSweeps:
        """Return what dispatchers find in the rows."""
        return PostgresSweeps(self.engine)

    @cached_property
    def retention(self) -> PostgresRetention:
        """Return what of ended jobs has expired."""
        ages = self.settings.retention
        return PostgresRetention(self.engine, ages.ages(), devices_age=ages.devices, known_pages_age=ages.known_pages)

    @cached_property
    def ledger(self) -> PostgresLedger:
        """Return the page ledger."""
        return PostgresLedger(self.engine)

    @cached_property
    def engine_memory(self) -> PostgresEngineMemory:
        """Return what has been learnt of the memory that engines take."""
        return PostgresEngineMemory(self.engine, keep_bounds=self.settings.devices.keep_bounds)

    @cached_property
    def devices(self) -> PostgresDevices:
        """Return the device rows."""
        return PostgresDevices(self.engine, lease=self.settings.leases.device)

    @cached_property
    def web_sources(self) -> WebSources:
        """Return the web servers that documents are fetched from."""
        sources = self.settings.sources
        return WebSources(
            Outbound(sources.web_rules(), silence=sources.silence),
            within=sources.longest_fetch,
            max_bytes=self.settings.limits.max_file_bytes,
        )

    @property
    def limits(self) -> AttemptLimits:
        """Return how often something is tried."""
        leases = self.settings.leases
        return AttemptLimits(max_attempts=leases.max_attempts, max_lost=leases.max_lost, max_waits=leases.max_waits)

    @property
    def queue_bounds(self) -> QueueBounds:
        """Return how much may be queued."""
        limits = self.settings.limits
        return QueueBounds(per_tenant=limits.max_queued_pages_per_tenant, in_all=limits.max_queued_pages)

    @property
    def steps(self) -> StepRunner:
        """Return what runs the steps of jobs."""
        return StepRunner(jobs=self.jobs, limits=self.limits, jitter=random.random, meter=self.meter)

    @property
    def ingest(self) -> Ingest:
        """Return the step."""
        sources = self.settings.sources
        rules = SourceRules(
            file_roots=sources.file_roots,
            allows_bucket=sources.allows_bucket,
            own_bucket=self.settings.objects.bucket,
            max_bytes=self.settings.limits.max_file_bytes,
        )
        return Ingest(
            jobs=self.jobs,
            objects=self.objects,
            web=self.web_sources,
            rules=rules,
            # Only a system that is run for drills lets a document ask for the engine that reads nothing.
            engines=set(engine_names()) - {"simulated"}
            | {self.settings.devices.engine, self.settings.devices.accelerator_engine or self.settings.devices.engine},
            unread=self._unread,
            media_type_of=media_type_of,
            queue=self.queue_bounds,
            renew_every=self._renew_every,
        )

    def _unread(self, engine: str | None, languages: Sequence[Language]) -> list[Language]:
        devices = self.settings.devices
        name = engine or devices.engine
        return unread(name, devices.engine_options.get(name, {}), languages)

    @property
    def split(self) -> Split:
        """Return the step."""
        chunks = self.settings.chunks
        return Split(
            jobs=self.jobs,
            objects=self.objects,
            inspector_for=self._inspector_for,
            live_devices=self.admissions.live_devices,
            bounds=ChunkBounds(target=chunks.target, max_pages=chunks.max_pages, short_job=chunks.short_job),
            page_ms_of=self._page_ms_of,
            queue=self.queue_bounds,
            renew_every=self._renew_every,
            memory_of=self._memory_of,
        )

    def _inspector_for(self, profile: Profile) -> BoundedInspector:
        return BoundedInspector(
            self.settings.limits.for_documents(profile),
            timeout=self.settings.leases.step * 2 / 3,
            max_memory_bytes=_INSPECTION_MEMORY_BYTES,
        )

    def _page_ms_of(self, lane: Lane, engine: str | None) -> int:
        devices = self.settings.devices
        usual = (devices.accelerator_engine if lane is Lane.GPU else None) or devices.engine
        measured = [baseline.a4_page_ms for baseline in self._baselines if baseline.engine == (engine or usual)]
        return measured[0] if measured else self.settings.chunks.page_ms

    @cached_property
    def _baselines(self) -> list[Baseline]:
        return [read_baseline(path) for path in self.settings.chunks.baselines]

    def _memory_of(self, engine: str | None) -> tuple[EngineMemory, float] | None:
        devices = self.settings.devices
        name = engine or devices.accelerator_engine or devices.engine
        # What reads is elsewhere, and so may its model be.
        model = self.devices.needs_of(name) or memory_of(name, devices.engine_options.get(name, {}))
        return None if model is None else (model, self.engine_memory.correction(name))

    @property
    def merge(self) -> Merge:
        """Return the step."""
        return Merge(jobs=self.jobs, ledger=self.ledger, objects=self.objects, renew_every=self._renew_every)

    @property
    def export(self) -> Export:
        """Return the step."""
        return Export(
            jobs=self.jobs,
            ledger=self.ledger,
            objects=self.objects,
            outputs=OUTPUTS,
            now=lambda: datetime.now(UTC),
            renew_every=self._renew_every,
        )

    @property
    def deliver(self) -> Deliver:
        """Return the step."""
        return Deliver(jobs=self.jobs, ledger=self.ledger)

    @property
    def render(self) -> Render:
        """Return the step."""
        return Render(chunks=self.chunks, objects=self.objects, render_for=self._render_for)

    def _render_for(self, profile: Profile) -> Renders:
        return BoundedRenderer(
            self.settings.limits.for_documents(profile),
            timeout=self.settings.leases.stall,
            max_memory_bytes=_INSPECTION_MEMORY_BYTES,
        ).render

    @cached_property
    def expire(self) -> Expire:
        """Return the removal of what has been kept long enough."""
        ages = self.settings.retention
        return Expire(
            rows=self.retention,
            objects=self.objects,
            at_once=ages.at_once,
            uploads_age=ages.uploads,
            now=lambda: datetime.now(UTC),
        )

    @cached_property
    def deliveries(self) -> PostgresDeliveries:
        """Return the webhooks that are to be sent; over a pool of their own, so that they take nobody's connection."""
        webhooks = self.settings.webhooks
        return PostgresDeliveries(
            self._connected(pool_size=1),
            lease=2 * webhooks.timeout + _LONGEST_LOOK_UP,
            per_tenant=max(1, webhooks.at_once // 2),
            max_tries=webhooks.max_tries,
            keep_trying=webhooks.keep_trying,
        )

    @cached_property
    def send_webhooks(self) -> SendWebhooks:
        """Return the sending of webhooks."""
        webhooks = self.settings.webhooks
        return SendWebhooks(
            rows=self.deliveries,
            poster=WebhookPoster(
                Outbound(webhooks.web_rules(), silence=webhooks.timeout),
                within=webhooks.timeout,
            ),
            max_tries=webhooks.max_tries,
            now=lambda: datetime.now(UTC),
            jitter=random.random,
        )

    @property
    def _renew_every(self) -> timedelta:
        return self.settings.leases.step / 4
