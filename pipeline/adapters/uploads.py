"""Uploads in parts, as rows: any process of the API takes any part, and none remembers anything."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError

from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Upload, UploadPart
from pipeline.domain import keys
from pipeline.domain.upload_parts import Cut
from pipeline.ports.objects import StoredPart


class NoSuchUpload(LookupError):
    """There is none by that id, or it is another tenant's."""


class TooManyUploads(Exception):
    """The tenant has as many open as it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenPart:
    """A part that lies in the store."""

    stored: StoredPart
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenUpload:
    """A document that is coming in."""

    upload_id: UUID
    idempotency_key: str
    """Its job's."""
    store_id: str
    cut: Cut
    created_at: datetime
    is_complete: bool = False
    """Whether it has become a job."""
    parts: tuple[TakenPart, ...] = ()
    """In the order of their numbers; not all need be there."""

    @property
    def key(self) -> str:
        """Return where the document will lie."""
        return keys.upload(self.upload_id)

    @property
    def missing(self) -> list[int]:
        """Return the numbers of the parts that are not there."""
        there = {part.stored.number for part in self.parts}
        return [number for number in range(1, self.cut.parts + 1) if number not in there]


class PostgresUploads:
    """Open uploads over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(self, upload: OpenUpload, *, tenant: str, api_key_id: str, at_most: int) -> OpenUpload:
        """Enter an upload and return it, or the one that is open under its idempotency key.

        Raises: TooManyUploads, if the tenant has that many open; a few that come at once may go over it.
        """
        opened = select(func.count()).select_from(Upload).where(Upload.tenant == tenant, Upload.completed_at.is_(None))
        named = Upload.tenant == tenant, Upload.idempotency_key == upload.idempotency_key
        entered = upsert(Upload).values(
            id=upload.upload_id,
            tenant=tenant,
            api_key_id=api_key_id,
            idempotency_key=upload.idempotency_key,
            store_id=upload.store_id,
            size_bytes=upload.cut.size_bytes,
            part_bytes=upload.cut.part_bytes,
        )
        with transaction(self._engine) as connection:
            if (known := _one(connection, *named)) is not None:
                return known
            if connection.execute(opened).scalar_one() >= at_most:
                raise TooManyUploads(f"{at_most} uploads are open")
            connection.execute(entered.on_conflict_do_nothing(constraint="upload_idempotency"))
            return _one(connection, *named) or upload

    def find(self, upload_id: UUID, tenant: str) -> OpenUpload:
        """Return an upload and the parts of it that are there. Raises: NoSuchUpload."""
        with transaction(self._engine) as connection:
            found = _one(connection, Upload.id == upload_id, Upload.tenant == tenant)
        if found is None:
            raise NoSuchUpload(str(upload_id))
        return found

    def add(self, upload_id: UUID, part: TakenPart) -> None:
        """Enter a part that lies in the store, instead of one with its number. Raises: NoSuchUpload."""
        content = {"etag": part.stored.etag, "size_bytes": part.stored.size_bytes, "sha256": part.sha256}
        statement = upsert(UploadPart).values(upload_id=upload_id, number=part.stored.number, **content)
        try:
            with transaction(self._engine) as connection:
                connection.execute(
                    statement.on_conflict_do_update(index_elements=["upload_id", "number"], set_=content)
                )
        except IntegrityError as error:
            raise NoSuchUpload(str(upload_id)) from error

    def complete(self, upload_id: UUID) -> None:
        """Note that it has become a job."""
        with transaction(self._engine) as connection:
            connection.execute(update(Upload).where(Upload.id == upload_id).values(completed_at=NOW))
            connection.execute(delete(UploadPart).where(UploadPart.upload_id == upload_id))

    def remove(self, upload_id: UUID) -> None:
        """Forget an upload; one that is not there is no error."""
        with transaction(self._engine) as connection:
            connection.execute(delete(Upload).where(Upload.id == upload_id))

    def remove_older(self, age: timedelta) -> None:
        """Forget the uploads that were begun that long ago."""
        with transaction(self._engine) as connection:
            connection.execute(delete(Upload).where(Upload.created_at < NOW - age))


def _one(connection: Connection, *which: ColumnElement[bool]) -> OpenUpload | None:
    row = connection.execute(select(Upload).where(*which)).one_or_none()
    if row is None:
        return None
    parts = select(UploadPart).where(UploadPart.upload_id == row.id).order_by(UploadPart.number)
    return OpenUpload(
        upload_id=row.id,
        idempotency_key=row.idempotency_key,
        store_id=row.store_id,
        cut=Cut(size_bytes=row.size_bytes, part_bytes=row.part_bytes),
        created_at=row.created_at,
        is_complete=row.completed_at is not None,
        parts=tuple(
            TakenPart(stored=StoredPart(number=at.number, etag=at.etag, size_bytes=at.size_bytes), sha256=at.sha256)
            for at in connection.execute(parts)
        ),
    )
