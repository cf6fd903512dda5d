"""The rows, as SQLAlchemy sees them. CHECK constraints forbid rows that no sequence of moves can reach.

`migrations/` creates exactly these tables (a test compares both); the triggers, the functions and the submitter's role
stand there alone.
"""

import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pipeline.domain.api_keys import Scope
from pipeline.domain.document import Lane, PageClass
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import AttemptOutcome, ChunkState, DeviceState, JobState
from pipeline.domain.webhooks import DeliveryError, DeliveryState, WebhookEvent

_NOW = text("now()")


class Base(DeclarativeBase):
    """The schema's metadata."""

    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own shape
        str: Text,
        datetime: TIMESTAMP(timezone=True),
        # What there is not is NULL, and not the null that JSON has.
        dict[str, Any]: JSONB(none_as_null=True),
        list[Any]: JSONB(none_as_null=True),
    }


def _one_of(column: str, values: type[StrEnum]) -> str:
    return f"{column} IN ({', '.join(repr(v.value) for v in values)})"


def _as_json(values: type[StrEnum]) -> str:
    return json.dumps([value.value for value in values])


def _in_states(states: Sequence[StrEnum]) -> str:
    return f"state IN ({', '.join(repr(s.value) for s in states)})"


_TERMINAL = _in_states([s for s in JobState if s.is_terminal])
_WAITS_FOR_A_STEP = _in_states([s for s in JobState if not s.is_terminal and s is not JobState.RUNNING])
_NEEDS_AN_ERROR = _in_states([JobState.REJECTED, JobState.FAILED])
_MAY_GO_ON = "NOT (paused OR cancel_requested OR off_hours)"
_BEST_FIRST = ("lane", "tenant", text("priority DESC"), "created_at")
_ENDED = "finished_at IS NOT NULL"
_OPEN_CHUNK = _in_states([s for s in ChunkState if not s.is_terminal])
_IS_DUE = f"state = '{DeliveryState.DUE}'"
_AGES = "keep_originals, keep_page_images, keep_segments, keep_results, keep_rows"
_HOURS_FORM = "hours ~ '^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]( [A-Za-z0-9_+/-]+)?$'"


class Job(Base):
    """One submitted document."""

    __tablename__ = "job"
    __table_args__ = (
        CheckConstraint("num_nonnulls(source_uri, upload_key) = 1", name="job_has_one_source"),
        CheckConstraint("jsonb_typeof(options) = 'object'", name="job_options_is_object"),
        CheckConstraint("priority BETWEEN -100 AND 100", name="job_priority_range"),
        CheckConstraint(_one_of("state", JobState), name="job_state_known"),
        CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name="job_lease_whole"),
        CheckConstraint(f"lease_owner IS NULL OR {_WAITS_FOR_A_STEP}", name="job_lease_only_for_steps"),
        CheckConstraint("sha256 ~ '^[0-9a-f]{64}$'", name="job_sha256_hex"),
        CheckConstraint("page_count > 0 AND size_bytes > 0", name="job_sizes_positive"),
        CheckConstraint("chunks_remaining BETWEEN 0 AND chunks_total", name="job_chunks_counted"),
        CheckConstraint(f"{_TERMINAL} = (finished_at IS NOT NULL)", name="job_finished_when_terminal"),
        CheckConstraint(f"NOT {_NEEDS_AN_ERROR} OR error_code IS NOT NULL", name="job_failure_has_cause"),
        CheckConstraint(
            r"callback_url ~ '^https?://[^\s/?#@]+([/?#]\S*)?$' AND length(callback_url) <= 2000",
            name="job_callback_url_form",
        ),
        CheckConstraint(
            f"jsonb_array_length(callback_events) > 0 AND callback_events <@ '{_as_json(WebhookEvent)}'::jsonb",
            name="job_callback_events_known",
        ),
        UniqueConstraint("tenant", "idempotency_key", name="job_idempotency"),
        CheckConstraint(_HOURS_FORM, name="job_hours_form"),
        CheckConstraint(_one_of("lane", Lane), name="job_lane_known"),
        Index("job_by_tenant", "tenant", "id"),
        Index(
            "job_unplanned_by_key",
            "api_key_id",
            postgresql_where=text(f"api_key_id IS NOT NULL AND page_count IS NULL AND NOT {_TERMINAL}"),
        ),
        Index(
            "job_due",
            "tenant",
            text("priority DESC"),
            text(f"(state = '{JobState.SUBMITTED}')"),
            "created_at",
            postgresql_where=text(f"{_WAITS_FOR_A_STEP} AND dispatched_at IS NULL AND {_MAY_GO_ON}"),
        ),
        Index("job_sent", "dispatched_at", postgresql_where=text(f"{_WAITS_FOR_A_STEP} AND dispatched_at IS NOT NULL")),
        Index("job_running", *_BEST_FIRST, postgresql_where=text(f"state = '{JobState.RUNNING}' AND {_MAY_GO_ON}")),
        Index(
            "job_short",
            *_BEST_FIRST,
            postgresql_where=text(f"state = '{JobState.RUNNING}' AND {_MAY_GO_ON} AND is_short"),
        ),
        Index("job_unwanted", "id", postgresql_where=text(f"cancel_requested AND NOT {_TERMINAL}")),
        Index("job_deadline", "deadline", postgresql_where=text(f"deadline IS NOT NULL AND NOT {_TERMINAL}")),
        Index("job_hours", "hours", "off_hours", postgresql_where=text(f"hours IS NOT NULL AND NOT {_TERMINAL}")),
        Index("job_by_label", "tenant", "label", postgresql_where=text(f"label IS NOT NULL AND NOT {_TERMINAL}")),
        Index("job_open", "id", postgresql_where=text(f"NOT {_TERMINAL}")),
        Index("job_by_content", "sha256", postgresql_where=text("sha256 IS NOT NULL")),
        Index("job_by_upload", "upload_key", postgresql_where=text(f"upload_key IS NOT NULL AND NOT {_TERMINAL}")),
        Index("job_ended", "tenant", "finished_at", postgresql_where=text(_ENDED)),
        Index(
            "job_with_original",
            "tenant",
            "finished_at",
            postgresql_where=text(f"{_ENDED} AND original_removed_at IS NULL AND sha256 IS NOT NULL"),
        ),
        *(
            Index(
                f"job_with_{what}",
                "tenant",
                "finished_at",
                postgresql_where=text(f"{_ENDED} AND {what}_removed_at IS NULL"),
            )
            for what in ("page_images", "segments", "results")
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, server_default=text("muniment_uuid7()"))
    tenant: Mapped[str]
    """Filled by a trigger: the login of a submitter, else `default`."""
    source_uri: Mapped[str | None]
    upload_key: Mapped[str | None]
    """The object that the API or the command line put into the store before inserting the row."""
    source_name: Mapped[str]
    """What people call the document; filled by a trigger from the URI."""
    options: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'::jsonb"))
    priority: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    idempotency_key: Mapped[str | None]
    label: Mapped[str | None]
    """The tenant's batch that it belongs to."""
    deadline: Mapped[datetime | None]
    hours: Mapped[str | None]
    """When it may run, `20:00-06:00` or `20:00-06:00 Asia/Shanghai`; UTC where no zone is named."""
    off_hours: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether it waits for its hours; triggers and the sweep keep it right."""
    paused: Mapped[bool] = mapped_column(server_default=text("false"))
    cancel_requested: Mapped[bool] = mapped_column(server_default=text("false"))
    api_key_id: Mapped[str | None]
    """The key that it was submitted with, if it came by the API."""
    callback_url: Mapped[str | None]
    """Who is told of its moves; a trigger makes the deliveries."""
    callback_events: Mapped[list[Any] | None]
    """Of which ones; None means its ends."""

    state: Mapped[str] = mapped_column(server_default=text(f"'{JobState.SUBMITTED}'"))
    attempt: Mapped[int] = mapped_column(server_default=text("0"))
    """Claims of the job's steps so far; the fence. Never goes back."""
    failures: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    """Claims of the current step that failed."""
    lost: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    """Claims of the current step whose lease ran out."""
    waits: Mapped[int] = mapped_column(server_default=text("0"))
    """Claims of the current step put off because a service was away."""
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    dispatched_at: Mapped[datetime | None]
    """When a message for the current step was last sent; None when it is due."""
    not_before: Mapped[datetime | None]

    sha256: Mapped[str | None]
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    media_type: Mapped[str | None]
    page_count: Mapped[int | None]
    flags: Mapped[list[Any]] = mapped_column(server_default=text("'[]'::jsonb"))
    lane: Mapped[str | None]
    """That of all its chunks, once planned."""
    is_short: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether its chunks may overtake those of long jobs."""
    chunks_total: Mapped[int | None]
    chunks_remaining: Mapped[int | None]
    document_key: Mapped[str | None]
    """The bound pages, JSON Lines, once merged."""
    result_keys: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'::jsonb"))
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]

    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    begun_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    """When it was submitted, or last begun again."""
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    finished_at: Mapped[datetime | None]
    original_removed_at: Mapped[datetime | None]
    """When its age was reached; the object goes with the last job that holds on to it."""
    page_images_removed_at: Mapped[datetime | None]
    segments_removed_at: Mapped[datetime | None]
    results_removed_at: Mapped[datetime | None]


class JobSecret(Base):
    """What opens a job's document; a trigger removes it when the job ends, whoever ends it."""

    __tablename__ = "job_secret"

    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    password: Mapped[str]


class Chunk(Base):
    """One page range of a job."""

    __tablename__ = "chunk"
    __table_args__ = (
        CheckConstraint("first_page >= 1 AND last_page >= first_page", name="chunk_range_not_empty"),
        CheckConstraint(_one_of("lane", Lane), name="chunk_lane_known"),
        CheckConstraint(_one_of("state", ChunkState), name="chunk_state_known"),
        CheckConstraint(
            "(state = 'running') = (lease_owner IS NOT NULL) AND (lease_owner IS NULL) = (lease_until IS NULL)",
            name="chunk_lease_while_running",
        ),
        CheckConstraint("state <> 'running' OR attempt > 0", name="chunk_runs_at_an_attempt"),
        CheckConstraint("state <> 'dead' OR error_code IS NOT NULL", name="chunk_death_has_cause"),
        UniqueConstraint("job_id", "ordinal", name="chunk_ordinal"),
        Index("chunk_open", "job_id", "ordinal", postgresql_where=text(_OPEN_CHUNK)),
        Index("chunk_in_flight", "lane", "state", postgresql_where=text("state IN ('admitted', 'running')")),
        Index("chunk_dead", "lane", postgresql_where=text(f"state = '{ChunkState.DEAD}'")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    """Deterministic, from job, ordinal and range."""
    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    ordinal: Mapped[int]
    first_page: Mapped[int]
    last_page: Mapped[int]
    lane: Mapped[str]
    state: Mapped[str] = mapped_column(server_default=text(f"'{ChunkState.READY}'"))
    attempt: Mapped[int] = mapped_column(server_default=text("0"))
    """Claims so far; the fence."""
    failures: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    lost: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    dispatched_at: Mapped[datetime | None]
    not_before: Mapped[datetime | None]
    waits: Mapped[int] = mapped_column(server_default=text("0"))
    is_express: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether it was last admitted in the room that is kept for short jobs."""
    cost_ms: Mapped[int]
    """Estimated at planning, on one CPU slot."""
    options: Mapped[dict[str, Any] | None]
    """What a retry asked for otherwise than the job does."""
    misfit: Mapped[dict[str, Any] | None]
    """What there was no memory for, where that is why another engine is to read it."""
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class ChunkAttempt(Base):
    """One claim of a chunk: who, where, when, how it ended."""

    __tablename__ = "chunk_attempt"
    __table_args__ = (
        CheckConstraint(_one_of("outcome", AttemptOutcome), name="chunk_attempt_outcome_known"),
        CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name="chunk_attempt_ends_with_outcome"),
        Index("chunk_attempt_by_device", "device_id", "started_at"),
        Index("chunk_attempt_ended", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    )

    chunk_id: Mapped[UUID] = mapped_column(ForeignKey("chunk.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    device_id: Mapped[str]
    started_at: Mapped[datetime] = mapped_column(server_default=text("clock_timestamp()"))
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    pages_done: Mapped[int] = mapped_column(server_default=text("0"))
    tokens: Mapped[int | None] = mapped_column(BigInteger)
    """Generated for those pages; None where the engine generates none."""
    baseline_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Memory of the runner before the chunk: in use on an accelerator, else resident."""
    peak_bytes: Mapped[int | None] = mapped_column(BigInteger)
    after_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """When it had given back what it could."""
    reserved_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """The most that its allocator kept of an accelerator."""
    used_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Of the accelerator afterwards, by all processes."""
    resident_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Of the host afterwards."""
    planned_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """What its largest batch was expected to take at its peak."""


class Page(Base):
    """The ledger: one row a page, one outcome each."""

    __tablename__ = "page"
    __table_args__ = (
        CheckConstraint("number >= 1", name="page_counted_from_1"),
        CheckConstraint(_one_of("class", PageClass), name="page_class_known"),
        CheckConstraint(_one_of("outcome", PageOutcome), name="page_outcome_known"),
        CheckConstraint(
            "(outcome IS NOT DISTINCT FROM 'failed') = (error_code IS NOT NULL)", name="page_failure_has_cause"
        ),
        CheckConstraint("outcome IS NOT NULL OR segment_key IS NULL", name="page_result_needs_outcome"),
        CheckConstraint(
            "outcome IS NULL OR outcome = 'failed' OR segment_key IS NOT NULL", name="page_outcome_has_result"
        ),
        CheckConstraint("confidence BETWEEN 0 AND 1", name="page_confidence_range"),
        CheckConstraint("(reused_job IS NULL) = (reused_page IS NULL)", name="page_reused_whole"),
        ForeignKeyConstraint(["chunk_id"], ["chunk.id"], name="page_chunk", ondelete="SET NULL"),
        Index("page_by_chunk", "chunk_id", postgresql_where=text("chunk_id IS NOT NULL")),
        Index(
            "page_flagged",
            text("muniment_doubt(flags) DESC"),
            text("job_id DESC"),
            "number",
            postgresql_where=text("flags <> '[]'::jsonb"),
        ),
    )

    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    chunk_id: Mapped[UUID | None]
    """The chunk that made, or gave up, the page."""
    page_class: Mapped[str] = mapped_column("class")
    source_file: Mapped[str | None]
    """The file of an archive that it comes from."""
    outcome: Mapped[str | None]
    segment_key: Mapped[str | None]
    attempt: Mapped[int | None]
    flags: Mapped[list[Any]] = mapped_column(server_default=text("'[]'::jsonb"))
    confidence: Mapped[float | None]
    angle_deg: Mapped[float | None]
    width_px: Mapped[int | None]
    height_px: Mapped[int | None]
    dpi: Mapped[float | None]
    engine: Mapped[str | None]
    revision: Mapped[str | None]
    elapsed_ms: Mapped[int | None]
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    reused_job: Mapped[UUID | None]
    """Where it was taken over from; that job may be gone."""
    reused_page: Mapped[int | None]


class KnownPage(Base):
    """A page that was read, by what it looks like and who may take it over; it goes with its page."""

    __tablename__ = "known_page"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "number"], ["page.job_id", "page.number"], name="known_page_of", ondelete="CASCADE"
        ),
        Index("known_page_by_page", "job_id", "number"),
        Index("known_page_by_age", "read_at"),
    )

    tenant: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[UUID]
    number: Mapped[int]
    read_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Device(Base):
    """One accelerator or CPU slot, and who holds it."""

    __tablename__ = "device"
    __table_args__ = (
        CheckConstraint("kind IN ('cpu', 'cuda')", name="device_kind_known"),
        CheckConstraint(_one_of("state", DeviceState), name="device_state_known"),
        CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name="device_lease_whole"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    """`host/name`, e.g. `scan-3/cpu:0`."""
    host: Mapped[str]
    name: Mapped[str]
    kind: Mapped[str]
    lanes: Mapped[list[Any]]
    """The lanes it serves."""
    state: Mapped[str] = mapped_column(server_default=text(f"'{DeviceState.FREE}'"))
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    total_bytes: Mapped[int | None] = mapped_column(BigInteger)
    free_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Of these, what is not held by others."""
    baseline_bytes: Mapped[int | None] = mapped_column(BigInteger)
    peak_bytes: Mapped[int | None] = mapped_column(BigInteger)
    problem: Mapped[str | None]
    """Why it takes nothing, where that is not somebody's wish."""
    needs: Mapped[dict[str, Any] | None]
    """What engines take of its memory, by their names, as its host says."""
    engine: Mapped[str | None]
    revision: Mapped[str | None]
    drain_requested: Mapped[bool] = mapped_column(server_default=text("false"))
    """Set by people: it finishes its page and takes nothing until this is taken back."""
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class EngineMemory(Base):
    """What has been learnt of the memory that an engine takes, on devices of a kind and size, for a class of pages."""

    __tablename__ = "engine_memory"
    __table_args__ = (
        CheckConstraint(
            "(pages IS NULL) = (lowered_at IS NULL) AND (pixels IS NULL) = (lowered_at IS NULL)",
            name="engine_memory_bound_whole",
        ),
        CheckConstraint("correction > 0", name="engine_memory_correction_positive"),
        CheckConstraint("(other_engine IS NULL) = (other_at IS NULL)", name="engine_memory_other_whole"),
    )

    engine: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[str] = mapped_column(primary_key=True)
    device: Mapped[str] = mapped_column(primary_key=True)
    """Kind and size, `cuda 25757220864`."""
    page_class: Mapped[str] = mapped_column(primary_key=True)
    pages: Mapped[int | None]
    """Of a batch that sufficed when memory last ran out, as the two that follow."""
    pixels: Mapped[int | None] = mapped_column(BigInteger)
    page_pixels: Mapped[int | None] = mapped_column(BigInteger)
    lowered_at: Mapped[datetime | None]
    correction: Mapped[float | None]
    """How much more a batch takes than was planned."""
    other_engine: Mapped[str | None]
    """That read what this one had no memory for."""
    other_at: Mapped[datetime | None]
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Tenant(Base):
    """Whose jobs they are; a row comes with a tenant's first job."""

    __tablename__ = "tenant"
    __table_args__ = (
        CheckConstraint("weight > 0", name="tenant_weight_positive"),
        CheckConstraint("max_queued_pages >= 0", name="tenant_bound_not_negative"),
        CheckConstraint(
            f"least({_AGES}) >= INTERVAL '0' AND greatest({_AGES}) <= INTERVAL '1000 years'",
            name="tenant_ages_in_range",
        ),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    weight: Mapped[float] = mapped_column(server_default=text("1"))
    """Its share of the devices, beside those of the others who have work waiting."""
    paused: Mapped[bool] = mapped_column(server_default=text("false"))
    max_queued_pages: Mapped[int | None] = mapped_column(BigInteger)
    """None leaves it to `limits.max_queued_pages_per_tenant`."""
    queued_pages: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    """Pages of its jobs that are planned and have not ended; a trigger counts."""
    keep_originals: Mapped[timedelta | None]
    """How long after a job's end, as the next four; None leaves it to `retention`."""
    keep_page_images: Mapped[timedelta | None]
    keep_segments: Mapped[timedelta | None]
    keep_results: Mapped[timedelta | None]
    keep_rows: Mapped[timedelta | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Batch(Base):
    """Jobs of a tenant under one label. What is changed here is changed on its open jobs; new ones take it over."""

    __tablename__ = "batch"
    __table_args__ = (
        CheckConstraint("priority BETWEEN -100 AND 100", name="batch_priority_range"),
        CheckConstraint(_HOURS_FORM, name="batch_hours_form"),
    )

    tenant: Mapped[str] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(primary_key=True)
    paused: Mapped[bool] = mapped_column(server_default=text("false"))
    priority: Mapped[int | None] = mapped_column(SmallInteger)
    deadline: Mapped[datetime | None]
    hours: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Turn(Base):
    """Where a tenant stands in a queue, see `domain/fairness.py`."""

    __tablename__ = "turn"

    tenant: Mapped[str] = mapped_column(primary_key=True)
    queue: Mapped[str] = mapped_column(primary_key=True)
    started: Mapped[float]
    finished: Mapped[float]


class Event(Base):
    """Append-only trail of every move and act; triggers write it, whoever it was, and it outlives what it tells of."""

    __tablename__ = "event"
    __table_args__ = (
        Index("event_by_job", "job_id", "id"),
        Index("event_of_no_job", "id", postgresql_where=text("job_id IS NULL")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=text("clock_timestamp()"))
    job_id: Mapped[UUID | None]
    chunk_id: Mapped[UUID | None]
    actor: Mapped[str]
    """The connection's application_name; of acts by the API, the key and the address."""
    kind: Mapped[str]
    """`job.<state>`, `chunk.<state>`, or what was done: `job.control`, `job.expired`, `key.revoked`, ..."""
    detail: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'::jsonb"))


class ApiKey(Base):
    """One caller of the HTTP API."""

    __tablename__ = "api_key"
    __table_args__ = (
        CheckConstraint("secret_sha256 ~ '^[0-9a-f]{64}$'", name="api_key_secret_is_hashed"),
        CheckConstraint(
            f"jsonb_array_length(scopes) > 0 AND scopes <@ '{_as_json(Scope)}'::jsonb",
            name="api_key_scopes_known",
        ),
        CheckConstraint("requests_per_minute > 0 AND pages_per_day >= 0", name="api_key_bounds_positive"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    """The public part of the key."""
    tenant: Mapped[str]
    name: Mapped[str]
    secret_sha256: Mapped[str]
    scopes: Mapped[list[Any]]
    networks: Mapped[list[Any]] = mapped_column(server_default=text("'[]'::jsonb"))
    """CIDR blocks that it may be used from; empty means anywhere."""
    requests_per_minute: Mapped[int | None]
    pages_per_day: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    """To the minute."""


class Usage(Base):
    """What was planned on one day, UTC, for a tenant by one key; a trigger counts, and no deleted job is taken back."""

    __tablename__ = "usage"

    day: Mapped[date] = mapped_column(primary_key=True)
    tenant: Mapped[str] = mapped_column(primary_key=True)
    api_key_id: Mapped[str] = mapped_column(primary_key=True, server_default=text("''"))
    """Empty for what did not come by the API."""
    documents: Mapped[int] = mapped_column(BigInteger)
    pages: Mapped[int] = mapped_column(BigInteger)


class Removal(Base):
    """A job that was deleted, and whose content is to be looked after once more."""

    __tablename__ = "removal"

    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    upload_key: Mapped[str | None]
    sha256: Mapped[str | None]
    removed_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Upload(Base):
    """A document that comes in parts; its id is part of its key in the store."""

    __tablename__ = "upload"
    __table_args__ = (
        CheckConstraint("size_bytes > 0 AND part_bytes > 0", name="upload_sizes_positive"),
        UniqueConstraint("tenant", "idempotency_key", name="upload_idempotency"),
        Index("upload_open", "tenant", postgresql_where=text("completed_at IS NULL")),
        Index("upload_by_age", "created_at"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    api_key_id: Mapped[str]
    idempotency_key: Mapped[str]
    """Its job's."""
    store_id: Mapped[str]
    """What the store calls the multipart upload."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    part_bytes: Mapped[int] = mapped_column(BigInteger)
    """Of every part but the last."""
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    completed_at: Mapped[datetime | None]
    """When it became a job; the row stays a while for those who ask again."""


class UploadPart(Base):
    """A part that has arrived."""

    __tablename__ = "upload_part"
    __table_args__ = (CheckConstraint("number BETWEEN 1 AND 10000", name="upload_part_number"),)

    upload_id: Mapped[UUID] = mapped_column(ForeignKey("upload.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    etag: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]


class Endpoint(Base):
    """A host that a tenant's webhooks go to; one at a time, and the endpoints in turn."""

    __tablename__ = "endpoint"
    __table_args__ = (
        CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name="endpoint_lease_whole"),
        Index("endpoint_in_turn", "taken_at"),
        Index("endpoint_leased", "tenant", postgresql_where=text("lease_until IS NOT NULL")),
    )

    tenant: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str] = mapped_column(primary_key=True)
    """With its port, if the URL has one."""
    failures: Mapped[int] = mapped_column(server_default=text("0"))
    """How often it was not reached, in a row."""
    not_before: Mapped[datetime | None]
    lease_owner: Mapped[str | None]
    """The delivery and attempt that is on its way there."""
    lease_until: Mapped[datetime | None]
    taken_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    """When something was last sent there."""


class Delivery(Base):
    """A webhook: one thing that somebody is to be told, and how far that is. Goes with its job."""

    __tablename__ = "delivery"
    __table_args__ = (
        CheckConstraint(_one_of("state", DeliveryState), name="delivery_state_known"),
        CheckConstraint(
            "(state = 'due') = (next_at IS NOT NULL) AND (state = 'due') = (ended_at IS NULL)",
            name="delivery_ends_or_is_due",
        ),
        CheckConstraint(_one_of("last_error", DeliveryError), name="delivery_error_known"),
        ForeignKeyConstraint(["tenant", "host"], ["endpoint.tenant", "endpoint.host"], name="delivery_endpoint"),
        Index("delivery_due", "tenant", "host", "next_at", postgresql_where=text(_IS_DUE)),
        Index("delivery_next", "next_at", postgresql_where=text(_IS_DUE)),
        Index("delivery_by_job", "job_id", "id"),
        Index("delivery_by_tenant", "tenant", "id"),
        Index("delivery_by_endpoint", "tenant", "host"),
        Index("delivery_ended", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True, server_default=text("muniment_uuid7()"))
    """The same at each attempt: by it a receiver knows what it has had."""
    job_id: Mapped[UUID] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    tenant: Mapped[str]
    host: Mapped[str]
    url: Mapped[str]
    event: Mapped[str]
    body: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(server_default=text(f"'{DeliveryState.DUE}'"))
    attempt: Mapped[int] = mapped_column(server_default=text("0"))
    """Claims so far; the fence. Never goes back."""
    tries: Mapped[int] = mapped_column(server_default=text("0"))
    """Claims since it was made, or replayed."""
    next_at: Mapped[datetime | None] = mapped_column(server_default=_NOW)
    last_status: Mapped[int | None] = mapped_column(SmallInteger)
    last_error: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    begun_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    """When it was made, or last replayed."""
    ended_at: Mapped[datetime | None]


class DeliveryAttempt(Base):
    """One claim of a delivery; the latest are kept."""

    __tablename__ = "delivery_attempt"

    delivery_id: Mapped[UUID] = mapped_column(ForeignKey("delivery.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    started_at: Mapped[datetime] = mapped_column(server_default=text("clock_timestamp()"))
    elapsed_ms: Mapped[int | None]
    status: Mapped[int | None] = mapped_column(SmallInteger)
    error: Mapped[str | None]


class WebhookKey(Base):
    """What a tenant's deliveries are signed with. Not hashed: whoever signs needs the secret itself."""

    __tablename__ = "webhook_key"
    __table_args__ = (Index("webhook_key_by_tenant", "tenant"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    secret: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=text("clock_timestamp()"))
    expires_at: Mapped[datetime | None]
