"""Whether the database and the store are as our processes need them; each check raises Unfit with what to do."""

import io

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from pipeline.adapters.database import known_revisions, revisions
from pipeline.adapters.objects import S3Objects
from pipeline.domain import keys
from pipeline.domain.errors import PipelineError
from pipeline.settings import DatabaseSettings, ObjectSettings, SettingsError
from pipeline.starting import ExitCode, Unfit


def check_database(database: DatabaseSettings) -> None:
    """Make sure that the database answers and has the schema of this version. Raises: SettingsError, Unfit."""
    if database.url is None:
        raise SettingsError("database.url is not set: start the embedded stack (muniment up), or name a Postgres")
    url = database.url.get_secret_value()
    try:
        where = make_url(url)
        at, needed = revisions(url)
    except (ArgumentError, NoSuchModuleError) as error:
        raise SettingsError("database.url is no URL like postgresql+psycopg://user:password@host:port/name") from error
    except PipelineError as error:
        place = f"{where.host}:{where.port or 5432}/{where.database}"
        raise Unfit(
            ExitCode.DATABASE,
            f"database.url: {place} does not answer as {where.username}: {error.message}."
            " Is it up, and are name and password right?",
        ) from error
    if at == needed:
        return
    if at is not None and at not in known_revisions():
        raise Unfit(
            ExitCode.SCHEMA,
            f"database.url: the schema is at revision {at}, which this version does not know; it needs {needed}."
            " Start the version that upgraded it",
        )
    raise Unfit(
        ExitCode.SCHEMA,
        f"database.url: the schema is at revision {at or 'none'}, this version needs {needed}: run `muniment prepare`",
    )


def check_store(settings: ObjectSettings) -> None:
    """Make sure that the bucket is there and takes and gives objects. Raises: SettingsError, Unfit."""
    if settings.endpoint is None:
        raise SettingsError("objects.endpoint is not set: start the embedded stack (muniment up), or name an S3 store")
    objects = S3Objects(settings, patient=False)
    place = f"{settings.endpoint}, bucket {settings.bucket}"
    try:
        objects.check()
    except PipelineError as error:
        raise Unfit(
            ExitCode.STORE,
            f"objects: {place}: {error.message}. Is it up, are objects.access_key and objects.secret_key right, and"
            " is there the bucket? `muniment prepare` makes it",
        ) from error
    try:
        objects.put(keys.PROBE, io.BytesIO(b"."), media_type="text/plain")
        with objects.get(keys.PROBE) as pieces:
            b"".join(pieces)
    except PipelineError as error:
        raise Unfit(
            ExitCode.STORE,
            f"objects: {place}: an object could not be written and read again: {error.message}."
            " objects.access_key needs the right to put, get, list and remove objects there",
        ) from error
