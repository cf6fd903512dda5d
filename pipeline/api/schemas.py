"""What goes in and comes out, as the OpenAPI document shows it."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
)

from pipeline.adapters.webhook_keys import SigningKeyStatus
from pipeline.domain import recognition
from pipeline.domain.document import PageClass
from pipeline.domain.forecast import Forecast
from pipeline.domain.languages import language_pattern, parse_language
from pipeline.domain.options import (
    MAX_DPI,
    MAX_LANGUAGES,
    MAX_VISUAL_TOKENS,
    MIN_DPI,
    MIN_VISUAL_TOKENS,
    LanePolicy,
    OutputFormat,
    PoorLayers,
)
from pipeline.domain.page_selection import MAX_CHARACTERS as MAX_CHARACTERS_OF_PAGES
from pipeline.domain.page_selection import parse_pages
from pipeline.domain.password import MAX_CHARACTERS, Password
from pipeline.domain.profiles import Profile
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import JobState
from pipeline.domain.webhooks import DeliveryError, DeliveryState, WebhookEvent
from pipeline.ports import review
from pipeline.ports.deliveries import AttemptRow, DeliveryStatus
from pipeline.ports.job_views import BatchStatus, PageRow, Progress
from pipeline.ports.submissions import JobStatus

_PAGES = r"^[1-9][0-9]{0,8}(-([1-9][0-9]{0,8})?)?(,[1-9][0-9]{0,8}(-([1-9][0-9]{0,8})?)?)*$"
_PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
_RFC_3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}")
_HOURS = r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]( [A-Za-z0-9_+/-]{1,64})?$"


def _as_rfc_3339(value: object) -> object:
    """Pass on what may be a time with its zone; numbers would be taken for seconds since 1970."""
    if isinstance(value, str) and not _RFC_3339.match(value):
        raise ValueError("a time is written as 2026-11-30T18:00:00Z")
    if not isinstance(value, str | datetime):
        raise ValueError("a time is a string")  # noqa: TRY004 - pydantic reports no TypeError
    return value


def _as_pages(value: str) -> str:
    """Return which pages are meant, written as rows have it."""
    return str(parse_pages(value))


def _as_password(value: object) -> Password:
    """Return what a password is from now on: something that shows itself to nobody."""
    if not isinstance(value, str):
        raise ValueError("a password is a string")  # noqa: TRY004 - pydantic reports no TypeError
    return Password(value)


Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=_PRINTABLE)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f/]+$")]
Hours = Annotated[str, StringConstraints(pattern=_HOURS)]
LanguageName = Annotated[
    str, StringConstraints(pattern=language_pattern()), AfterValidator(lambda name: parse_language(name).code)
]
FlagName = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,64}$")]
EngineName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
SourceUri = Annotated[
    str,
    StringConstraints(
        max_length=2000,
        pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,62}/[^\x00-\x20\x7f]+|https?://[\x21-\x7e]+)$",
    ),
]
CallbackUrl = Annotated[str, StringConstraints(max_length=2000, pattern=r"^https?://[!-\"$-.0->A-~]+([/?#][!-~]*)?$")]
CallbackEvents = Annotated[list[WebhookEvent], Field(min_length=1)]
PasswordText = Annotated[
    Password,
    PlainValidator(_as_password),
    WithJsonSchema({"type": "string", "format": "password", "minLength": 1, "maxLength": MAX_CHARACTERS}),
]
PagesText = Annotated[
    str, StringConstraints(max_length=MAX_CHARACTERS_OF_PAGES, pattern=_PAGES), AfterValidator(_as_pages)
]
Moment = Annotated[AwareDatetime, BeforeValidator(_as_rfc_3339)]
Priority = Annotated[int, Field(strict=True, ge=-100, le=100)]
VisualTokens = Annotated[int, Field(strict=True, ge=MIN_VISUAL_TOKENS, le=MAX_VISUAL_TOKENS)]
Dpi = Annotated[float, Field(strict=True, ge=MIN_DPI, le=MAX_DPI, allow_inf_nan=False)]


class _Given(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class Options(_Given):
    """How a document is read; what is not given is left to the settings."""

    lane: LanePolicy | None = None
    engine: EngineName | None = None
    profile: Profile | None = Field(default=None, description="Speed or care: resolution, and which networks read.")
    dpi: Dpi | None = Field(default=None, description="What scans are rendered at.")
    languages: Annotated[list[LanguageName], Field(max_length=MAX_LANGUAGES)] | None = Field(
        default=None, description="What it is written in, as BCP 47 has it.", examples=[["de", "zh-Hans"]]
    )
    words: bool | None = Field(default=None, description="Whether lines are to have their words with their places.")
    poor_layers: PoorLayers | None = Field(
        default=None, description="Whether scans under the text of a poor recogniser keep that, or are read."
    )
    reuse: bool | None = Field(
        default=None, description="Whether a page may be taken over from one of yours that looks the same; it may."
    )
    visual_tokens: VisualTokens | None = Field(default=None, description="How closely `deepseek-ocr2` looks at a page.")
    formats: Annotated[list[OutputFormat], Field(min_length=1)] | None = None
    pages: PagesText | None = Field(default=None, description="Only these, counted from 1.", examples=["3-10,15", "3-"])


class JobFields(_Given):
    """What may be said of a document beside its bytes."""

    name: Name | None = Field(default=None, description="What people call it.")
    label: Label | None = Field(default=None, description="The batch that it belongs to.")
    priority: Priority = 0
    deadline: Moment | None = None
    hours: Hours | None = Field(default=None, examples=["20:00-06:00 Asia/Shanghai"])
    password: PasswordText | None = Field(default=None, description="What opens it; never in a query.")
    callback_url: CallbackUrl | None = Field(default=None, description="Who is told what becomes of it.")
    callback_events: CallbackEvents | None = Field(default=None, description="Of what; its ends, if not given.")
    options: Options = Options()


class Source(JobFields):
    """A document that is fetched from where it lies."""

    source_uri: SourceUri = Field(examples=["s3://archive/box-17/0001.pdf"])


class NewUpload(_Given):
    """A document that is to come in parts."""

    size_bytes: Annotated[int, Field(strict=True, ge=1, le=2**53)] = Field(examples=[2_147_483_648])


class NewBatch(_Given):
    """Many documents at once."""

    label: Label
    sources: Annotated[list[Source], Field(min_length=1, max_length=1000)]


class Change(_Given):
    """What is to be otherwise from now on."""

    priority: Priority | None = None
    deadline: Moment | None = None
    hours: Hours | Literal["any"] | None = None


class Again(_Given):
    """How an ended job is begun again."""

    all_pages: bool = Field(default=False, strict=True, description="Else those that failed or were not reached.")
    password: PasswordText | None = None
    options: Options = Options()


class Part(BaseModel):
    """A part of a document that has arrived; parts are counted from 1."""

    number: int
    size_bytes: int
    sha256: str = Field(description="Of what arrived, in hexadecimal digits.")


class Upload(BaseModel):
    """A document that comes in parts."""

    id: UUID
    size_bytes: int
    part_bytes: int = Field(description="Of every part but the last.")
    part_count: int
    parts: list[Part] = Field(description="Those that have arrived, in order.")
    created_at: datetime
    expires_at: datetime = Field(description="It is given up then, unless it has become a job.")


class Flag(BaseModel):
    """A doubt, or something that had to be done."""

    name: str
    score: float | None = Field(description="0 to 1; null where there is none to give.")


class Failure(BaseModel):
    """Why something ended as it did."""

    code: str
    message: str | None


class Pages(BaseModel):
    """Pages of a job, counted."""

    total: int | None = Field(description="None until it is planned.")
    done: int
    outcomes: dict[PageOutcome, int]


class Job(BaseModel):
    """A document and what became of it."""

    id: UUID
    state: JobState
    name: str
    source_uri: str | None
    label: str | None
    priority: int
    options: dict[str, Any]
    deadline: datetime | None
    hours: str | None
    paused: bool
    cancelling: bool
    media_type: str | None
    size_bytes: int | None
    sha256: str | None = Field(description="Of the document as it came.")
    pages: Pages
    flags: list[Flag]
    results: dict[OutputFormat, str] = Field(description="Where each output is fetched.")
    error: Failure | None
    callback_url: str | None
    callback_events: list[WebhookEvent] = Field(description="Empty where those are its ends.")
    created_at: datetime
    finished_at: datetime | None


class Queue(BaseModel):
    """What goes before a job."""

    jobs_ahead: int = Field(description="Of a higher priority; or of its own tenant, as high and older.")
    pages_ahead: int = Field(description="Of these, and what its fair share leaves to other tenants meanwhile.")


class TimeLeft(BaseModel):
    """When a job will probably have ended, from how fast such work went lately: no promise."""

    least_s: int
    most_s: int


class JobDetail(Job):
    """A job, what it waits for, and how long that may take."""

    waits_for: str | None
    queue: Queue | None = Field(description="While its pages are known and not all read.")
    time_left: TimeLeft | None = Field(description="Once enough of its lane's work was measured.")


class JobList(BaseModel):
    """Some jobs, newest first."""

    jobs: list[Job]
    next: str | None = Field(description="The cursor of those that follow.")


class JobIds(BaseModel):
    """Jobs that were concerned."""

    jobs: list[UUID]


class PageSource(BaseModel):
    """A page that was read before; its job may be gone."""

    job_id: UUID
    number: int


class Page(BaseModel):
    """A page, as the ledger has it."""

    number: int
    page_class: PageClass = Field(serialization_alias="class", validation_alias=AliasChoices("class", "page_class"))
    source_file: str | None = Field(description="The file of the archive that it comes from; null in all else.")
    outcome: PageOutcome | None
    confidence: float | None
    flags: list[Flag]
    width_px: int | None
    height_px: int | None
    dpi: float | None
    angle_deg: float | None
    engine: str | None
    revision: str | None
    elapsed_ms: int | None
    reused: PageSource | None = Field(description="The page that it was taken over from, as it looks the same.")
    error: Failure | None


class PageList(BaseModel):
    """Some pages, in order."""

    pages: list[Page]
    next: int | None = Field(description="The cursor of those that follow.")


class FlaggedPage(BaseModel):
    """A page that somebody should look at."""

    job: UUID
    name: str = Field(description="Of its document.")
    label: str | None
    number: int
    source_file: str | None = Field(description="The file of the archive that it comes from; null in all else.")
    outcome: PageOutcome
    confidence: float | None
    score: float = Field(description="Of the flag asked for, else of its worst; 0.5 for one without.")
    flags: list[Flag]
    image: str = Field(description="Where it is seen.")


class ReviewList(BaseModel):
    """Some flagged pages, the worst first."""

    pages: list[FlaggedPage]
    next: str | None = Field(description="The cursor of those that follow.")


class Batch(BaseModel):
    """Jobs under one label."""

    label: str
    paused: bool
    priority: int | None
    deadline: datetime | None
    hours: str | None
    created_at: datetime
    jobs: dict[JobState, int]
    pages: Pages


class BatchList(BaseModel):
    """Some batches, by label."""

    batches: list[Batch]
    next: str | None


class Delivery(BaseModel):
    """A webhook."""

    id: UUID = Field(description="The same at each attempt; it is in the body, too.")
    job_id: UUID
    event: WebhookEvent
    url: str
    state: DeliveryState
    attempts: int
    next_at: datetime | None = Field(description="When it is sent next; None when it has ended.")
    last_status: int | None = Field(description="What the endpoint last answered, if it did.")
    last_error: DeliveryError | None
    created_at: datetime
    ended_at: datetime | None


class DeliveryAttempt(BaseModel):
    """One attempt at a webhook."""

    number: int
    started_at: datetime
    elapsed_ms: int | None
    status: int | None
    error: DeliveryError | None


class DeliveryDetail(Delivery):
    """A webhook with its latest attempts, oldest first."""

    log: list[DeliveryAttempt]


class DeliveryList(BaseModel):
    """Some webhooks, newest first."""

    deliveries: list[Delivery]
    next: str | None = Field(description="The cursor of those that follow.")


class NewWebhookKey(_Given):
    """What is asked of a new key."""

    overlap_hours: Annotated[int, Field(strict=True, ge=0, le=8760)] = Field(
        default=24, description="How long the keys before it go on signing; of more than five, only the newest do."
    )


class WebhookKey(BaseModel):
    """What webhooks are signed with: HMAC-SHA256 with the whole secret, its prefix included."""

    id: str = Field(description="It stands beside its signature.")
    secret: str
    created_at: datetime
    expires_at: datetime | None = Field(description="When it signs no more, if a newer one was made.")


class WebhookKeyList(BaseModel):
    """The keys that sign now, newest first."""

    keys: list[WebhookKey]


class ProblemDetails(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[dict[str, str]] | None = None


def _job_fields(status: JobStatus) -> dict[str, Any]:
    """Return a job in the shape of `Job`."""
    return {
        "id": status.job_id,
        "state": status.state,
        "name": status.source_name,
        "source_uri": status.source_uri,
        "label": status.label,
        "priority": status.priority,
        "options": dict(status.options),
        "deadline": status.deadline,
        "hours": status.hours,
        "paused": status.paused,
        "cancelling": status.cancel_requested and not status.state.is_terminal,
        "media_type": status.media_type,
        "size_bytes": status.size_bytes,
        "sha256": status.sha256,
        "pages": Pages(total=status.page_count, done=status.pages_done, outcomes=dict(status.outcomes)),
        "flags": _flags(status.flags),
        "results": {form: f"/v1/jobs/{status.job_id}/result?format={form}" for form in status.result_keys},
        "error": _failure(status.error_code, status.error_detail),
        "callback_url": status.callback_url,
        "callback_events": list(status.callback_events),
        "created_at": status.created_at,
        "finished_at": status.finished_at,
    }


def job(status: JobStatus) -> Job:
    """Return a job as callers see it."""
    return Job(**_job_fields(status))


def job_detail(status: JobStatus, *, waits_for: str | None, forecast: Forecast | None) -> JobDetail:
    """Return a job with what is said of it beside its own row."""
    queue = left = None
    if forecast:
        queue = Queue(jobs_ahead=forecast.ahead.jobs, pages_ahead=round(forecast.ahead.pages))
        left = forecast.time_left
    time_left = left and TimeLeft(
        least_s=math.floor(left.least.total_seconds()), most_s=math.ceil(left.most.total_seconds())
    )
    return JobDetail(**_job_fields(status), waits_for=waits_for, queue=queue, time_left=time_left)


def webhook_key(status: SigningKeyStatus) -> WebhookKey:
    """Return a key in the shape of the API."""
    return WebhookKey(
        id=status.key.key_id,
        secret=status.key.secret,
        created_at=status.created_at,
        expires_at=status.expires_at,
    )


def page(row: PageRow) -> Page:
    """Return a page as callers see it."""
    return Page(
        number=row.number,
        page_class=row.page_class,
        source_file=row.source_file,
        outcome=row.outcome,
        confidence=row.confidence,
        flags=_flags(row.flags),
        width_px=row.width_px,
        height_px=row.height_px,
        dpi=row.dpi,
        angle_deg=row.angle_deg,
        engine=row.engine,
        revision=row.revision,
        elapsed_ms=row.elapsed_ms,
        reused=row.source and PageSource(job_id=row.source.job_id, number=row.source.number),
        error=_failure(row.error_code, row.error_detail),
    )


def flagged_page(found: review.FlaggedPage) -> FlaggedPage:
    """Return a flagged page as callers see it."""
    return FlaggedPage(
        job=found.job_id,
        name=found.source_name,
        label=found.label,
        number=found.number,
        source_file=found.source_file,
        outcome=found.outcome,
        confidence=found.confidence,
        score=found.doubt,
        flags=_flags(found.flags),
        image=f"/v1/jobs/{found.job_id}/pages/{found.number}?format=image",
    )


def batch(status: BatchStatus) -> Batch:
    """Return a batch as callers see it."""
    return Batch(
        label=status.label,
        paused=status.paused,
        priority=status.priority,
        deadline=status.deadline,
        hours=status.hours,
        created_at=status.created_at,
        jobs=dict(status.jobs),
        pages=Pages(total=status.pages, done=sum(status.outcomes.values()), outcomes=dict(status.outcomes)),
    )


def progress(seen: Progress) -> dict[str, Any]:
    """Return how far a job is, as streams tell it."""
    pages = Pages(total=seen.page_count, done=sum(seen.outcomes.values()), outcomes=dict(seen.outcomes))
    return {"state": seen.state.value, "pages": pages.model_dump(mode="json")}


def delivery(status: DeliveryStatus) -> Delivery:
    """Return a webhook as callers see it."""
    return Delivery(**_delivery_fields(status))


def delivery_detail(status: DeliveryStatus, attempts: Sequence[AttemptRow]) -> DeliveryDetail:
    """Return a webhook with its attempts as callers see it."""
    return DeliveryDetail(**_delivery_fields(status), log=[DeliveryAttempt(**asdict(row)) for row in attempts])


def _delivery_fields(status: DeliveryStatus) -> dict[str, Any]:
    fields = asdict(status)
    return {name: fields[name] for name in Delivery.model_fields if name != "id"} | {"id": status.delivery_id}


def options_given(options: Options) -> dict[str, Any]:
    """Return the options as they stand on a job's row: those that were given."""
    return options.model_dump(mode="json", exclude_none=True)


def _flags(flags: Iterable[recognition.Flag]) -> list[Flag]:
    return [Flag(name=flag.name, score=flag.score) for flag in flags]


def _failure(code: str | None, detail: str | None) -> Failure | None:
    return Failure(code=code, message=detail) if code else None
