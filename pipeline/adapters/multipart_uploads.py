"""Objects that come in parts, over S3 multipart upload.

The SDK has no public calls for its parts (minio 7.2); those used here are pinned with it, and stand here alone.
"""

import io
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import urllib3
from minio.datatypes import Part

from pipeline.adapters.objects import store_client, translated
from pipeline.domain.errors import Rejected
from pipeline.ports.objects import StoredPart
from pipeline.settings import ObjectSettings


class S3MultipartUploads:
    """MultipartUploads over S3. Safe to share between threads."""

    def __init__(self, settings: ObjectSettings) -> None:
        self._bucket = settings.bucket
        self._client = store_client(
            settings,
            urllib3.Timeout(connect=3, read=60),
            urllib3.Retry(total=4, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504)),
        )

    def put_whole(self, key: str, content: bytes) -> None:
        """Store an object that is smaller than a part."""
        with translated(key):
            self._client.put_object(self._bucket, key, io.BytesIO(content), len(content))

    def begin(self, key: str) -> str:
        """Begin an object and return the id of its upload; nothing is there under the key until it is finished."""
        with translated(key):
            return self._client._create_multipart_upload(  # noqa: SLF001 - see above
                self._bucket, key, {"Content-Type": "application/octet-stream"}
            )

    def put(self, key: str, upload_id: str, number: int, content: bytes) -> StoredPart:
        """Store a part; the same number again replaces it."""
        with translated(key):
            etag = self._client._upload_part(self._bucket, key, content, None, upload_id, number)  # noqa: SLF001
        return StoredPart(number=number, etag=etag.strip('"'), size_bytes=len(content))

    def finish(self, key: str, upload_id: str, parts: Sequence[StoredPart]) -> None:
        """Make the object of these parts. Raises: Rejected (`source_not_found`), if there is no such upload."""
        with translated(key):
            self._client._complete_multipart_upload(  # noqa: SLF001
                self._bucket, key, upload_id, [Part(part.number, part.etag) for part in parts]
            )

    def abort_older(self, prefix: str, age: timedelta) -> None:
        """Abort the uploads below a prefix that were begun that long ago."""
        with translated(prefix):
            begun = self._client._list_multipart_uploads(self._bucket, prefix=prefix).uploads  # noqa: SLF001
        latest = datetime.now(UTC) - age
        for upload in begun:
            if upload.initiated_time is None or upload.initiated_time < latest:
                # Another process may have come first.
                with suppress(Rejected):
                    self.abort(upload.object_name, upload.upload_id or "")

    def abort(self, key: str, upload_id: str) -> None:
        """Remove all parts. Raises: Rejected (`source_not_found`), if there is no such upload."""
        with translated(key):
            self._client._abort_multipart_upload(self._bucket, key, upload_id)  # noqa: SLF001
