"""What commands reach the rows and the store by; imported by them when they run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import click
from sqlalchemy import Engine

from pipeline.adapters.control import PostgresControl
from pipeline.adapters.database import connect
from pipeline.adapters.devices import PostgresDeviceBoard
from pipeline.adapters.forecasts import PostgresForecasts
from pipeline.adapters.objects import S3Objects
from pipeline.adapters.reasons import PostgresReasons
from pipeline.adapters.reviews import PostgresReview
from pipeline.adapters.submissions import PostgresSubmissions
from pipeline.domain import keys
from pipeline.domain.document import JobId
from pipeline.ports.submissions import JobStatus
from pipeline.settings import Settings, SettingsError, read_settings

_HINT = "start the embedded stack with `muniment up`, or set database.url, broker.url and objects.endpoint"


def database_url() -> str:
    """Return where the rows are. Raises: SettingsError."""
    url = read_settings().database.url
    if url is None:
        raise SettingsError(f"nothing runs here, and no database is named: {_HINT}")
    return url.get_secret_value()


def servers_named() -> tuple[Settings, str]:
    """Return the settings and the database's URL. Raises: SettingsError, if database or store are not named."""
    settings = read_settings()
    return settings, _url_beside_a_store(settings)


def _url_beside_a_store(settings: Settings) -> str:
    if settings.database.url is None or settings.objects.endpoint is None:
        raise SettingsError(f"nothing runs here, and no servers are named: {_HINT}")
    return settings.database.url.get_secret_value()


class Access:
    """Rows and store of a running system."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.engine: Engine = connect(_url_beside_a_store(settings), actor="muniment cli")
        self.submissions = PostgresSubmissions(self.engine)
        self.devices = PostgresDeviceBoard(self.engine)
        self.control = PostgresControl(self.engine)
        self.review = PostgresReview(self.engine)
        self.reasons = PostgresReasons(self.engine)
        self.forecasts = PostgresForecasts(self.engine)
        self.objects = S3Objects(settings.objects)

    def upload(self, path: Path) -> str:
        """Put a file into the store for a job to come; return its key."""
        key = keys.upload(uuid4())
        with path.open("rb") as file:
            self.objects.put(key, file, media_type="application/octet-stream")
        return key

    def save(self, key: str, path: Path) -> None:
        """Write an object to a file, which is whole or not there."""
        partial = path.with_name(path.name + ".partial")
        with self.objects.get(key) as pieces, partial.open("wb") as file:
            file.writelines(pieces)
        partial.replace(path)

    def job(self, job_id: str) -> JobStatus:
        """Return one job. Raises: click.UsageError, if there is none."""
        found = self.submissions.find([parse_id(job_id)])
        if not found:
            raise click.UsageError(f"there is no job {job_id}")
        return found[0]


@contextmanager
def open_access() -> Iterator[Access]:
    """Reach the running system that the settings name. Raises: SettingsError."""
    access = Access(read_settings())
    try:
        yield access
    finally:
        access.engine.dispose()


def parse_id(job_id: str) -> JobId:
    """Return a job's id. Raises: click.UsageError."""
    try:
        return JobId(UUID(job_id))
    except ValueError:
        raise click.UsageError(f"{job_id} is no job id: those look like 01a22c42-b319-7e86-acca-73929feb493d") from None
