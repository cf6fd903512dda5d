"""Images of pages for people who look at them: rendered when first asked for, and kept beside the job's results."""

import tempfile
import threading
from datetime import timedelta
from pathlib import Path

from pipeline.adapters.documents.rendering import BoundedRenderer
from pipeline.adapters.original_cache import OriginalCache
from pipeline.domain import keys
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.ports.objects import ObjectStore
from pipeline.ports.submissions import JobStatus
from pipeline.settings import Settings

_TIMEOUT = timedelta(seconds=60)
_MEMORY_BYTES = 2 * 1024**3


class PageImages:
    """Renders one page at a time in a process; safe to share between threads."""

    def __init__(self, objects: ObjectStore, settings: Settings) -> None:
        self._objects = objects
        self._folder = tempfile.TemporaryDirectory(prefix="muniment-api-", ignore_cleanup_errors=True)
        self._originals = OriginalCache(
            Path(self._folder.name) / "originals", objects, max_bytes=2 * settings.limits.max_file_bytes
        )
        self._renderer = BoundedRenderer(
            settings.limits.for_documents(), timeout=_TIMEOUT, max_memory_bytes=_MEMORY_BYTES
        )
        self._one_at_a_time = threading.Lock()

    def png(self, job: JobStatus, number: int, dpi: int) -> bytes:
        """Return a page as PNG. Raises: Rejected (`page_damaged`), if it can't be rendered."""
        key = keys.page_image(job.job_id, number, dpi)
        return self._kept(key) or self._render(job, number, dpi, key)

    def close(self) -> None:
        """Remove the originals that were fetched."""
        self._folder.cleanup()

    def _kept(self, key: str) -> bytes | None:
        if self._objects.size(key) is None:
            return None
        with self._objects.get(key) as pieces:
            return b"".join(pieces)

    def _render(self, job: JobStatus, number: int, dpi: int, key: str) -> bytes:
        if job.sha256 is None or job.size_bytes is None:
            raise Rejected(ErrorCode.SOURCE_NOT_FOUND, f"the original of job {job.job_id} is not stored yet")
        with self._one_at_a_time:
            original = self._originals.path(job.sha256, job.size_bytes)
            rendered = dict(self._renderer.render(original, [number], dpi))
        if number not in rendered:
            raise Rejected(ErrorCode.PAGE_DAMAGED, f"page {number} can't be rendered")
        self._objects.put(key, rendered[number], media_type="image/png")
        return rendered[number]
