"""Objects in any S3 store, through the MinIO SDK; the only module that knows it."""

import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

import urllib3
from minio import Minio
from minio.datatypes import Object
from minio.deleteobjects import DeleteObject
from minio.error import InvalidResponseError, MinioException, S3Error, ServerError

from pipeline.domain.errors import ErrorCode, Rejected, Transient
from pipeline.domain.upload_parts import PART_BYTES
from pipeline.ports.objects import StoredObject
from pipeline.settings import ObjectSettings

_PIECE_BYTES = 1024 * 1024
_MISSING = {"NoSuchKey", "NoSuchBucket", "NoSuchObject", "NoSuchUpload", "ResourceNotFound"}
_DENIED = {"AccessDenied", "InvalidBucketName"}


class S3Objects:
    """ObjectStore over S3. Safe to share between threads; build it after a fork."""

    def __init__(self, settings: ObjectSettings, *, patient: bool = True) -> None:
        """Args: patient is to try again for a while what fails; otherwise the answer comes within seconds."""
        if settings.endpoint is None:
            raise ValueError("objects.endpoint is not set: start the embedded stack, or name an S3 store")
        self._bucket = settings.bucket
        self._probe = store_client(settings, urllib3.Timeout(connect=2, read=3), urllib3.Retry(total=0))
        # The SDK's own HTTP client waits five minutes for a store that is away.
        self._client = (
            self._probe
            if not patient
            else store_client(
                settings,
                urllib3.Timeout(connect=3, read=60),
                urllib3.Retry(total=4, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504)),
            )
        )

    def put(self, key: str, content: Iterable[bytes] | BinaryIO | bytes, *, media_type: str) -> int:
        """Store an object, streaming; return its size in bytes."""
        with translated(key):
            if isinstance(content, bytes):
                self._client.put_object(self._bucket, key, io.BytesIO(content), len(content), content_type=media_type)
                return len(content)
            # What reads already needs no reader around it.
            stream = content if hasattr(content, "read") else io.BufferedReader(_Pieces(content), _PIECE_BYTES)
            counted = _Counted(stream)
            self._client.put_object(
                self._bucket,
                key,
                counted,  # type: ignore[arg-type]
                length=-1,
                part_size=PART_BYTES,
                num_parallel_uploads=1,
                content_type=media_type,
            )
            return counted.size_bytes

    @contextmanager
    def get(
        self, key: str, *, bucket: str | None = None, offset: int = 0, length: int = 0
    ) -> Iterator[Iterator[bytes]]:
        """Stream an object in pieces of at most 1 MiB. Raises: Rejected (`source_not_found`).

        Args: length is counted in bytes from the offset; 0 is all that follows it.
        """
        with translated(key):
            response = self._client.get_object(bucket or self._bucket, key, offset=offset, length=length)
            try:
                yield response.stream(_PIECE_BYTES)
            finally:
                response.close()
                response.release_conn()

    def size(self, key: str, *, bucket: str | None = None) -> int | None:
        """Return an object's size in bytes, or None where there is none."""
        try:
            with translated(key):
                return self._client.stat_object(bucket or self._bucket, key).size
        except Rejected as error:
            if error.code is ErrorCode.SOURCE_NOT_FOUND:
                return None
            raise

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""
        with translated(", ".join(keys[:3])):
            for refused in self._client.remove_objects(self._bucket, [DeleteObject(key) for key in keys]):
                raise Transient(ErrorCode.STORE_UNAVAILABLE, f"the store kept {refused.name}: {refused.code}")

    def listing(self, prefix: str, *, after: str | None = None, at_most: int | None = None) -> list[StoredObject]:
        """Return the objects whose keys begin so, in the order of their keys, from behind a key on."""
        with translated(prefix):
            found = self._client.list_objects(self._bucket, prefix=prefix, recursive=True, start_after=after)
            return [_stored(item) for item in itertools.islice(found, at_most)]

    def check(self) -> None:
        """Make sure, within seconds, that the bucket is there for us. Raises: Transient (`store_unavailable`)."""
        try:
            with translated(self._bucket):
                is_there = self._probe.bucket_exists(self._bucket)
        except Rejected as error:
            # No document's fault: a key or a policy was changed, and whoever did that can put it right.
            raise Transient(ErrorCode.STORE_UNAVAILABLE, error.message) from error
        if not is_there:
            raise Transient(ErrorCode.STORE_UNAVAILABLE, f"there is no bucket {self._bucket}: create it first")


class Links:
    """Makes links by which anybody can fetch one object for a while."""

    def __init__(self, settings: ObjectSettings, *, endpoint: str | None, secure: bool | None) -> None:
        """Args: endpoint is where those who follow links reach the store, if not where we do."""
        from_outside = {
            "endpoint": endpoint or settings.endpoint,
            "secure": settings.secure if secure is None else secure,
        }
        # Signs only: no link is made by asking the store.
        self._client = store_client(
            settings.model_copy(update=from_outside), urllib3.Timeout(connect=3, read=3), urllib3.Retry(total=0)
        )
        self._bucket = settings.bucket

    def link(self, key: str, *, lives: timedelta, media_type: str, disposition: str) -> str:
        """Return a link to an object that is answered with these headers."""
        headers = {"response-content-type": media_type, "response-content-disposition": disposition}
        return self._client.presigned_get_object(self._bucket, key, lives, response_headers=dict(headers))


def store_client(settings: ObjectSettings, timeout: urllib3.Timeout, retries: urllib3.Retry) -> Minio:
    """Return the SDK's client, which fails as soon as these say."""
    return Minio(
        str(settings.endpoint),
        access_key=settings.access_key,
        secret_key=settings.secret_key.get_secret_value(),
        secure=settings.secure,
        region=settings.region,
        http_client=urllib3.PoolManager(maxsize=8, timeout=timeout, retries=retries),
    )


def _stored(item: Object) -> StoredObject:
    return StoredObject(
        key=item.object_name or "",
        size_bytes=item.size or 0,
        stored_at=item.last_modified or datetime.now(UTC),
    )


@contextmanager
def translated(key: str) -> Iterator[None]:
    """Turn the SDK's errors into ours."""
    try:
        yield
    except S3Error as error:
        if error.code in _MISSING:
            raise Rejected(ErrorCode.SOURCE_NOT_FOUND, f"there is no object {key}") from error
        if error.code in _DENIED:
            raise Rejected(ErrorCode.SOURCE_NOT_ALLOWED, f"the store does not let us read {key}") from error
        raise Transient(ErrorCode.STORE_UNAVAILABLE, f"the store refused {key}: {error.code}") from error
    except (MinioException, InvalidResponseError, ServerError, urllib3.exceptions.HTTPError) as error:
        raise Transient(
            ErrorCode.STORE_UNAVAILABLE, f"the store did not answer for {key}: {type(error).__name__}"
        ) from error


class _Pieces(io.RawIOBase):
    """Makes an iterable of pieces readable."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        taken = min(len(buffer), len(self._rest))
        buffer[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken


class _Counted:
    """Counts what is read through it."""

    def __init__(self, stream: "BinaryIO | io.BufferedReader | Iterable[bytes]") -> None:
        self._read = stream.read  # type: ignore[union-attr]
        self.size_bytes = 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._read(size)
        self.size_bytes += len(data)
        return data
