"""Expire: remove what has been kept long enough, from the store first and then from the rows.

Called again and again by dispatchers, a bounded piece each time. A crash between the two leaves a row that says too
much; the next call finds nothing in the store and corrects the row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from pipeline.domain import keys
from pipeline.domain.errors import PipelineError
from pipeline.domain.retention import Kept, belongs_to
from pipeline.ports.objects import ObjectStore, StoredObject
from pipeline.ports.retention import Expired, Removed, Retention

log = structlog.get_logger()
_UPLOADS_AT_ONCE = 1000


@dataclass(slots=True)
class UploadCursor:
    """Where the walk through uploads goes on."""

    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What would go, and what of the store."""

    expired: Expired
    objects: tuple[StoredObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """The use case, over its ports."""

    rows: Retention
    objects: ObjectStore
    at_once: int
    """Jobs of each kind in one call."""
    uploads_age: timedelta
    now: Callable[[], datetime]
    """The store's clock is compared with it: uploads are kept for days."""
    seen: UploadCursor = field(default_factory=UploadCursor)

    def __call__(self) -> int:
        """Remove some of what is due; return of how many jobs, uploads and known pages; 0: nothing is left.

        Raises: Transient, when the store or the database is away; what is removed by then stays so.
        """
        jobs = sum(self._remove_some(what) for what in Kept)
        uploads = self._remove_uploads()
        if devices := self.rows.forget_devices():
            log.info("devices_forgotten", count=devices)
        known_pages = self.rows.forget_known_pages()
        return jobs + uploads + known_pages

    def due(self) -> Iterator[Expiry]:
        """Yield what is due now, and remove nothing; an object is named once, with what takes it first."""
        named: set[str] = set()
        for what in Kept:
            for expired in self.rows.all_expired(what):
                free = expired.sha256 is not None and not self.rows.still_held([expired.sha256])
                found = tuple(item for item in self._of(expired, original=free) if item.key not in named)
                named.update(item.key for item in found)
                yield Expiry(expired=expired, objects=found)

    def left_behind(self) -> Iterator[StoredObject]:
        """Yield the uploads that no open job names and that are old enough to be garbage."""
        cursor: str | None = None
        while page := self._uploads_after(cursor):
            cursor = page[-1].key
            yield from self._garbage(page)

    def _remove_some(self, what: Kept) -> int:
        removed, failure = 0, None
        for expired in self.rows.expired(what, self.at_once):
            try:
                removed += self._remove(expired)
            except PipelineError as error:
                # One object that the store does not give up, for a legal hold perhaps, keeps nothing else.
                log.warning("expired_not_removed", job_id=str(expired.job_id), what=what, detail=error.message)
                failure = error
        if failure is not None and not removed:
            raise failure
        return removed

    def _remove(self, expired: Expired) -> int:
        with self.rows.holding(expired) as hold:
            if hold is None:
                return 0
            gone = self._of(expired, original=hold.original_is_free)
            self.objects.delete([item.key for item in gone])
            removed = Removed(objects=len(gone), size_bytes=sum(item.size_bytes for item in gone))
            hold.done(removed)
        log.info(
            "expired_removed",
            job_id=str(expired.job_id),
            what=expired.what,
            objects=removed.objects,
            size_bytes=removed.size_bytes,
        )
        return 1

    def _of(self, expired: Expired, *, original: bool) -> list[StoredObject]:
        """Return what of the store goes with it; the original only if it is to go."""
        found: list[StoredObject] = []
        if expired.what is not Kept.ORIGINALS:
            of_job = self.objects.listing(keys.of_job(expired.job_id))
            found += [item for item in of_job if expired.what in (Kept.ROWS, belongs_to(item.key))]
        if expired.what in (Kept.ORIGINALS, Kept.ROWS) and expired.sha256 is not None and original:
            found += self.objects.listing(keys.original(expired.sha256))
        return found

    def _remove_uploads(self) -> int:
        page = self._uploads_after(self.seen.after)
        self.seen.after = page[-1].key if len(page) == _UPLOADS_AT_ONCE else None
        garbage = self._garbage(page)
        self.objects.delete([item.key for item in garbage])
        if garbage:
            log.info("uploads_removed", count=len(garbage))
        return len(garbage)

    def _uploads_after(self, key: str | None) -> list[StoredObject]:
        return self.objects.listing(keys.UPLOADS, after=key, at_most=_UPLOADS_AT_ONCE)

    def _garbage(self, page: list[StoredObject]) -> list[StoredObject]:
        old = [item for item in page if item.stored_at < self.now() - self.uploads_age]
        wanted = self.rows.wanted([item.key for item in old])
        return [item for item in old if item.key not in wanted]
