"""Where bytes lie."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object that is there."""

    key: str
    size_bytes: int
    stored_at: datetime


class ObjectStore(Protocol):
    """Immutable objects by key. Keys hold ids and hashes only, never names of files."""

    def put(self, key: str, content: Iterable[bytes] | BinaryIO | bytes, *, media_type: str) -> int:
        """Store an object, streaming; return its size in bytes. Writing a key again with the same content is safe."""

    def get(self, key: str, *, bucket: str | None = None) -> AbstractContextManager[Iterator[bytes]]:
        """Stream an object in pieces of at most 1 MiB. Raises: Rejected (`source_not_found`)."""

    def size(self, key: str, *, bucket: str | None = None) -> int | None:
        """Return an object's size in bytes, or None where there is none."""

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""

    def listing(self, prefix: str, *, after: str | None = None, at_most: int | None = None) -> list[StoredObject]:
        """Return the objects whose keys begin so, in the order of their keys, from behind a key on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """A part of an object that is not finished yet; parts are counted from 1."""

    number: int
    etag: str
    size_bytes: int


class MultipartUploads(Protocol):
    """Objects that come in parts. All parts but the last have at least 5 MiB."""

    def put_whole(self, key: str, content: bytes) -> None:
        """Store an object that is smaller than a part."""

    def begin(self, key: str) -> str:
        """Begin an object and return the id of its upload; nothing is there under the key until it is finished."""

    def put(self, key: str, upload_id: str, number: int, content: bytes) -> StoredPart:
        """Store a part; the same number again replaces it."""

    def finish(self, key: str, upload_id: str, parts: Sequence[StoredPart]) -> None:
        """Make the object of these parts. Raises: Rejected (`source_not_found`), if there is no such upload."""

    def abort_older(self, prefix: str, age: timedelta) -> None:
        """Abort the uploads below a prefix that were begun that long ago."""

    def abort(self, key: str, upload_id: str) -> None:
        """Remove all parts. Raises: Rejected (`source_not_found`), if there is no such upload."""
