"""All settings, one typed tree, read once by each process and passed on.

Order, first wins: arguments, environment (`MUNIMENT_*`, levels joined by `__`), files of the folder `MUNIMENT_SECRETS`
(`database__password`), the TOML file named by `MUNIMENT_CONFIG` (default `muniment.toml` in the working directory),
what the running embedded stack wrote down.
"""

import os
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import quote, urlsplit, urlunsplit

import pydantic_settings
from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from pipeline.domain.profiles import Profile
from pipeline.domain.retention import Ages
from pipeline.domain.web import WebRules
from pipeline.embedded.state import read_state
from pipeline.ports.documents import DocumentLimits


def default_home() -> Path:
    """Return where the embedded stack keeps its data, secrets and logs."""
    if named := os.environ.get("MUNIMENT_HOME"):
        return Path(named)
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "muniment"


class SettingsError(Exception):
    """The settings can't be used as they are."""


def _as_number(value: object) -> object:
    """Return seconds as a number where the environment gives them as text; other forms are left as they are."""
    return float(value) if isinstance(value, str) and value.replace(".", "", 1).isdigit() else value


Duration = Annotated[timedelta, BeforeValidator(_as_number), Field(gt=timedelta(0))]
"""Seconds, `00:01:30` or ISO 8601 (`PT90S`)."""


class _Section(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class _Server(_Section):
    url: SecretStr | None = None
    password: SecretStr | None = None
    """Goes into the URL, so that it can come from elsewhere."""

    @model_validator(mode="before")
    @classmethod
    def _join(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("url") and given.get("password"):
            return given | {"url": _with_password(_plain(given["url"]), _plain(given["password"]))}
        return given


def _plain(secret: Any) -> str:
    return secret.get_secret_value() if isinstance(secret, SecretStr) else str(secret)


def _with_password(url: str, password: str) -> str:
    parts = urlsplit(url)
    user, host = (parts.netloc.rpartition("@")[0].partition(":")[0], parts.netloc.rpartition("@")[2])
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


class DatabaseSettings(_Server):
    """Postgres 13 or later; its URL is `postgresql+psycopg://user:password@host:port/name`."""

    pool_size: int = Field(default=2, ge=1, le=50)


class BrokerSettings(_Server):
    """Valkey or Redis 6.2 or later, `noeviction`; its URL is `redis://:password@host:port/0`."""

    key_prefix: str = "muniment:"


class ObjectSettings(_Section):
    """Any S3 store."""

    endpoint: str | None = None
    """`host:port`."""
    access_key: str = ""
    secret_key: SecretStr = SecretStr("")
    bucket: str = "muniment"
    region: str = "us-east-1"
    secure: bool = False


Port = Annotated[int, Field(ge=1, le=65535)]
Network = Annotated[str, AfterValidator(lambda block: str(ip_network(block)))]


class SourceSettings(_Section):
    """Where a job's `source_uri` may point."""

    file_roots: tuple[Path, ...] = ()
    """Folders below which `file://` sources may lie, on the host of the io worker; none by default."""
    buckets: tuple[str, ...] = ()
    """Buckets of the store that `s3://` sources may name; empty means any that our credentials can read."""
    tenant_buckets: dict[str, tuple[str, ...]] = {}
    """Buckets by the tenants that alone may name them; several may share one."""
    https: bool = True
    """Whether `https://` sources are fetched, from public addresses."""
    http: bool = False
    """Whether `http://` sources are, too; what comes may have been changed on the way."""
    hosts: tuple[str, ...] = ()
    """Hosts that both may name, or `.example.org` for all below that; empty means any."""
    ports: tuple[Port, ...] = (443, 80)
    """Empty means any."""
    allowed_networks: tuple[Network, ...] = ()
    """CIDR blocks of private addresses that may be asked as well."""
    silence: Duration = timedelta(seconds=20)
    """How long such a server may take to accept, and to send the next bytes."""
    longest_fetch: Duration = timedelta(minutes=30)
    """How long a document may take."""

    def owns_bucket(self, tenant: str, bucket: str) -> bool | None:
        """Whether a bucket is among a tenant's own; None where it is nobody's."""
        owners = {owner for owner, buckets in self.tenant_buckets.items() if bucket in buckets}
        return tenant in owners if owners else None

    def allows_bucket(self, tenant: str, bucket: str) -> bool:
        """Whether a job of a tenant may name a bucket."""
        owns = self.owns_bucket(tenant, bucket)
        return not self.buckets or bucket in self.buckets if owns is None else owns

    def web_rules(self) -> WebRules:
        """Return what may be fetched by HTTP."""
        asked = {"https": self.https, "http": self.http}
        return WebRules(
            schemes=frozenset(scheme for scheme, is_allowed in asked.items() if is_allowed),
            ports=frozenset(self.ports),
            hosts=self.hosts,
            networks=self.allowed_networks,
        )


class LimitSettings(_Section):
    """What is over a bound gets a clear error early."""

    max_file_bytes: int = Field(default=2 * 1024**3, ge=1)
    max_pages: int = Field(default=10_000, ge=1)
    max_page_side_pt: float = Field(default=14_400, gt=0)
    """200 inches, the largest page that PDF 1.7 (ISO 32000-1, annex C) allows."""
    max_image_pixels: int = Field(default=1_500_000_000, ge=1)
    max_render_pixels: int = Field(default=40_000_000, ge=1)
    max_unpacked_bytes: int = Field(default=8 * 1024**3, ge=1)
    """What the files of a ZIP may have together, unpacked."""
    dpi: float = Field(default=200, ge=36, le=1200)
    max_queued_pages_per_tenant: int = Field(default=10_000_000, ge=1)
    """Planned pages of a tenant's open jobs; a job that would go over it is rejected. Its row may say otherwise."""
    max_queued_pages: int = Field(default=50_000_000, ge=1)
    """The same, of all tenants together."""
    longest_job: Duration = timedelta(days=365)
    """A job that is not done this long after it was submitted, or begun again, ends as if it had had that deadline."""
    longest_wait: Duration = timedelta(days=30)
    """What nobody took for this long, though neither people nor hours hold it, is given up with that cause."""

    def for_documents(self, profile: Profile = Profile.BALANCED) -> DocumentLimits:
        """Return the bounds that matter for opening and rendering."""
        return DocumentLimits(
            max_pages=self.max_pages,
            max_page_side_pt=self.max_page_side_pt,
            max_image_pixels=self.max_image_pixels,
            max_render_pixels=self.max_render_pixels,
            max_unpacked_bytes=self.max_unpacked_bytes,
            dpi=self.dpi,
            finest_scan_dpi=profile.finest_scan_dpi,
        )


class ChunkSettings(_Section):
    """How a document is taken apart."""

    target: Duration = timedelta(seconds=40)
    """How long one chunk should keep its device."""
    short_job: Duration = timedelta(seconds=60)
    """A job of no more work than this may overtake longer ones, within the room that is kept for such."""
    max_pages: int = Field(default=50, ge=1)
    page_ms: int = Field(default=4_000, ge=1)
    """Estimated time to recognise an A4 page at 200 dpi on one CPU slot."""
    baselines: tuple[Path, ...] = ()
    """Files that `muniment bench --baseline` wrote; for their engines they say it in the place of `page_ms`."""
    flush_pages: int = Field(default=4, ge=1)
    flush_after: Duration = timedelta(seconds=5)


class LeaseSettings(_Section):
    """Time limits of claims; all compared on the database's clock."""

    chunk: Duration = timedelta(seconds=60)
    step: Duration = timedelta(minutes=3)
    device: Duration = timedelta(seconds=30)
    stall: Duration = timedelta(seconds=180)
    """A runner that finishes no page for this long is killed."""
    warm_up: Duration = timedelta(minutes=5)
    resend: Duration = timedelta(seconds=30)
    """A row whose message was sent this long ago and not claimed is sent again."""
    max_attempts: int = Field(default=3, ge=1)
    """Claims of a chunk or step that failed for a reason of its own."""
    max_lost: int = Field(default=10, ge=1)
    """Claims lost with their worker."""
    max_waits: int = Field(default=1500, ge=1)
    """Claims put off because a service was away, at most a minute apart: about a day."""


class DispatcherSettings(_Section):
    """How rows become messages."""

    poll: Duration = timedelta(seconds=1)
    sweep: Duration = timedelta(seconds=5)
    window_per_slot: int = Field(default=2, ge=1)
    """Chunks on their way for each device of a lane."""
    most_per_slot: int = Field(default=16, ge=1)
    """The same for very short chunks, as far as they are less than `ahead` of work."""
    ahead: Duration = timedelta(seconds=1)
    short_share: float = Field(default=0.25, gt=0, le=1)
    """Room beside the window for short jobs, as a share of the devices, at least one chunk; these go first."""
    io_window: int = Field(default=8, ge=1)


class DeclaredDevice(_Section):
    """An accelerator that is served though no driver shows it: for tests and drills of everything around it."""

    name: str = Field(pattern=r"^cuda:[A-Za-z0-9]+$")
    total_bytes: int = Field(ge=1)


class DeviceSettings(_Section):
    """Which devices a launcher serves, and with what."""

    cpu_slots: int | None = Field(default=None, ge=0)
    """Processes that recognise on the CPU, one thread each; default: as many as `cpu_cores`, else one for each core."""
    cpu_niceness: int = Field(default=10, ge=0, le=19)
    """By how much they stand back behind other processes of the host, such as those that answer callers."""
    cpu_cores: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Cores of this host that CPU slots have for themselves, one each; what else `muniment up` runs keeps off them."""
    engine: str = "rapidocr"
    accelerator_engine: str | None = None
    """What reads scans on accelerators; without it they are left alone."""
    declared: tuple[DeclaredDevice, ...] = ()
    """Accelerators that are served beside those that are found."""
    engine_options: dict[str, dict[str, Any]] = {}
    """By the engine's name, in which `_` stands for `-` too, as variables have none; each engine checks its own."""
    max_runner_bytes: int = Field(default=2 * 1024**3, ge=1)
    """A runner that holds more memory than this after a chunk is replaced before it takes another."""
    baseline_tolerance_bytes: int = Field(default=1024**3, ge=0)
    """A runner that holds this much more after a chunk than when it was warm is replaced as well."""
    accelerator_tolerance_bytes: int = Field(default=64 * 1024**2, ge=0)
    """The same for what it holds of an accelerator's memory."""
    foreign_tolerance_bytes: int = Field(default=512 * 1024**2, ge=0)
    """What others may take of an accelerator while its runner rests; more, and nothing is claimed for it until it is
    free again. The runner's own context may grow by as much with time."""
    other_engine: dict[str, str] = {}
    """By an engine's name, which reads a page instead for which it has no memory, even alone and shown smaller."""
    sick_after: int = Field(default=3, ge=1)
    """A device whose runner breaks over so many different chunks in a row takes nothing until a probe succeeds."""
    probe_every: Duration = timedelta(seconds=60)
    """How often a sick device is tried with a new runner, which reads a page of its own."""
    keep_bounds: Duration = timedelta(hours=1)
    """How long batches stay as small as sufficed when memory ran out."""
    lock_folder: Path = Field(default_factory=lambda: default_home() / "locks")
    """Where workers of this host lock their devices; one folder for all that share a device."""
    temporary_folder: Path = Field(default_factory=lambda: Path(tempfile.gettempdir()) / f"muniment-{os.getuid()}")
    """Where runners keep the originals that they are reading; a folder for each device, emptied at its start."""

    @model_validator(mode="after")
    def _have_a_core_for_each_slot(self) -> Self:
        if len(set(self.cpu_cores)) != len(self.cpu_cores):
            raise ValueError("cpu_cores names a core twice")
        if self.cpu_cores and self.cpu_slots not in (None, len(self.cpu_cores)):
            raise ValueError(f"cpu_slots is {self.cpu_slots}, cpu_cores names {len(self.cpu_cores)}: one is enough")
        return self

    @field_validator("other_engine")
    @classmethod
    def _end_somewhere(cls, others: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): other for name, other in others.items()}
        for name in named:
            seen = [name]
            while (other := named.get(seen[-1])) is not None:
                if other in seen:
                    raise ValueError(f"{' -> '.join([*seen, other])} never ends")
                seen.append(other)
        return named

    @field_validator("engine_options")
    @classmethod
    def _name_engines(cls, options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {name.replace("_", "-"): own for name, own in options.items()}


Age = Annotated[Duration, Field(le=timedelta(days=365_000))]


class StartSettings(_Section):
    """How processes begin."""

    patience: Annotated[timedelta, BeforeValidator(_as_number), Field(ge=timedelta(0))] = timedelta(seconds=30)
    """How long a process waits for a service that is not there yet, or not as it has to be, before it ends."""


class RetentionSettings(_Section):
    """How long what belongs to a job is kept after its end; None is for ever. A tenant's row may say otherwise."""

    originals: Age | None = None
    """The original goes with the last of the jobs that were given the same bytes."""
    page_images: Age | None = timedelta(days=7)
    segments: Age | None = None
    """Without them, a retry of failed pages begins at the beginning."""
    results: Age | None = None
    rows: Age | None = None
    """Job, chunks and pages; all that is left of the job goes with them, but its trail."""
    uploads: Age = timedelta(days=7)
    """Files that were handed in, and which no open job names."""
    devices: Age = timedelta(days=7)
    """Rows of devices that have not been heard of."""
    known_pages: Age | None = timedelta(days=30)
    """What pages look like that were read, so that a page that looks the same is taken over from there."""
    every: Duration = timedelta(minutes=1)
    """How often dispatchers look."""
    at_once: int = Field(default=50, ge=1)
    """Jobs that a look removes something of, for each of these ages; after a full look the next follows at once."""

    def ages(self) -> Ages:
        """Return the ages of what belongs to jobs."""
        return Ages(
            originals=self.originals,
            page_images=self.page_images,
            segments=self.segments,
            results=self.results,
            rows=self.rows,
        )


class WebhookSettings(_Section):
    """How callers are told of what becomes of their jobs, and where that may go."""

    http: bool = False
    """Whether callbacks may be `http://` as well; anybody on the way could read them."""
    hosts: tuple[str, ...] = ()
    """Hosts that callbacks may name, or `.example.org` for all below that; empty means any."""
    ports: tuple[Port, ...] = (443, 80)
    """Empty means any."""
    allowed_networks: tuple[Network, ...] = ()
    """CIDR blocks of private addresses that may be told as well."""
    timeout: Duration = timedelta(seconds=10)
    """How long an endpoint may take for its whole answer."""
    at_once: int = Field(default=8, ge=0, le=64)
    """What a dispatcher sends at the same time, half of it for one tenant at most; 0 leaves it to other dispatchers."""
    max_tries: int = Field(default=16, ge=1, le=100)
    """How often a delivery is tried before it is given up: with these pauses, for some hours."""
    keep_trying: Duration = timedelta(days=3)
    """A delivery that is older is given up: one that waits for an endpoint that is away is not tried every time."""

    def web_rules(self) -> WebRules:
        """Return where callbacks may go."""
        return WebRules(
            schemes=frozenset({"https", "http"} if self.http else {"https"}),
            ports=frozenset(self.ports),
            hosts=self.hosts,
            networks=self.allowed_networks,
        )


class MetricsSettings(_Section):
    """What each process says of itself by HTTP: `/metrics` for Prometheus, `/livez` and `/readyz`."""

    host: str = "127.0.0.1"
    """Nobody is asked for a password: a loopback address, or one that only Prometheus reaches."""
    port: int = Field(default=0, ge=0, le=65535)
    """0 for none. Processes of one host need a port each, but for workers of a launcher, for which that answers."""
    every: Duration = timedelta(seconds=15)
    """How old what is said of the rows may be."""
    window: Duration = timedelta(hours=1)
    """What has ended is counted over so long."""
    tenants: int = Field(default=20, ge=0)
    """Those with most queued stand by themselves, all others as one."""


class TraceSettings(_Section):
    """Traces of jobs, told to a collector by OpenTelemetry (the extra `traces`)."""

    endpoint: AnyHttpUrl | None = None
    """Where it takes OTLP over HTTP, e.g. http://collector:4318/v1/traces; headers by OTEL_EXPORTER_OTLP_HEADERS."""


class ApiSettings(_Section):
    """The HTTP API: where it listens, and what a caller may have of it."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=1, le=65535)
    admin_host: str = "127.0.0.1"
    """Of the routes about devices, queues and usage."""
    admin_port: int = Field(default=8766, ge=0, le=65535)
    """0 leaves them out."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    connections: int = Field(default=8, ge=1, le=100)
    """Connections to the database that a process keeps open; it may open as many again for a moment."""
    requests_per_minute: int = Field(default=6000, ge=1)
    """Of a key that has no rate of its own."""
    max_request_bytes: int = Field(default=4 * 1024**2, ge=1024)
    """Of everything but documents."""
    max_uploads: int = Field(default=8, ge=1)
    """Documents that a process takes in at the same time, in about 32 MiB of memory each."""
    open_uploads: int = Field(default=1000, ge=1)
    """Documents in parts that a tenant may have begun."""
    max_streams: int = Field(default=1000, ge=1)
    """Streams of events that a process holds open at the same time."""
    inline_bytes: int = Field(default=1024**2, ge=0)
    """A larger result is answered with a link to the store."""
    link_lifetime: Duration = timedelta(minutes=15)
    store_endpoint: str | None = None
    """`host:port` at which callers reach the store; not set: the one that we use."""
    store_secure: bool | None = None


Level = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class LogSettings(_Section):
    """Structured logs on stderr; never document text."""

    level: Level = "INFO"
    levels: dict[str, Level] = {}
    """By module or package, such as `workers.supervisor` or `celery`; the longest name that fits counts."""
    json_lines: bool = False


class _SecretFilesSource(PydanticBaseSettingsSource):
    """Files named after settings, as container engines mount secrets; others in the folder are left alone."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError

    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in _secret_files():
            section, _, name = path.name.lower().partition("__")
            found.setdefault(section, {})[name] = path.read_text(encoding="utf-8").strip()
        return found


def _secret_files() -> list[Path]:
    folder = os.environ.get("MUNIMENT_SECRETS")
    try:
        return [path for path in Path(folder).iterdir() if "__" in path.name and path.is_file()] if folder else []
    except OSError as error:
        raise SettingsError(f"MUNIMENT_SECRETS: {folder} can't be read: {error.strerror}") from error


class _EmbeddedStackSource(PydanticBaseSettingsSource):
    """What the embedded stack that runs now has written down: addresses and generated secrets."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError

    def __call__(self) -> dict[str, Any]:
        state = read_state(default_home())
        return state.settings if state else {}


class Settings(BaseSettings):
    """The whole tree."""

    model_config = SettingsConfigDict(
        env_prefix="MUNIMENT_", env_nested_delimiter="__", extra="forbid", frozen=True, env_ignore_empty=True
    )

    database: DatabaseSettings = DatabaseSettings()
    broker: BrokerSettings = BrokerSettings()
    objects: ObjectSettings = ObjectSettings()
    sources: SourceSettings = SourceSettings()
    limits: LimitSettings = LimitSettings()
    chunks: ChunkSettings = ChunkSettings()
    leases: LeaseSettings = LeaseSettings()
    dispatcher: DispatcherSettings = DispatcherSettings()
    devices: DeviceSettings = DeviceSettings()
    start: StartSettings = StartSettings()
    retention: RetentionSettings = RetentionSettings()
    webhooks: WebhookSettings = WebhookSettings()
    metrics: MetricsSettings = MetricsSettings()
    traces: TraceSettings = TraceSettings()
    api: ApiSettings = ApiSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is theirs
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in their order."""
        config = Path(os.environ.get("MUNIMENT_CONFIG", "muniment.toml"))
        return (
            init_settings,
            env_settings,
            _SecretFilesSource(settings_cls),
            TomlConfigSettingsSource(settings_cls, toml_file=config),
            _EmbeddedStackSource(settings_cls),
        )


def read_settings() -> Settings:
    """Return the settings of this process. Raises: SettingsError, which names all that is wrong, one a line."""
    problems = [f"{name}: there is no such section of the settings" for name in _of_no_section(os.environ)]
    try:
        settings = Settings()
    except ValidationError as error:
        problems += [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
    except pydantic_settings.SettingsError as error:
        problems.append(f"{error}: lists are JSON in the environment")
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _of_no_section(environment: Iterable[str]) -> list[str]:
    """Return the variables that look like settings and would be passed over."""
    prefix, delimiter = "MUNIMENT_", "__"
    named = {name: name.upper().removeprefix(prefix).partition(delimiter)[0].lower() for name in environment}
    return [
        name
        for name, section in named.items()
        if name.upper().startswith(prefix) and delimiter in name and section not in Settings.model_fields
    ]
