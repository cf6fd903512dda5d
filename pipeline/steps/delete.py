"""Delete: take a document away, with all that was made of it. Asked for by people, not a step on its way."""

from dataclasses import dataclass
from datetime import timedelta

from pipeline.domain import keys
from pipeline.domain.document import JobId
from pipeline.ports.objects import ObjectStore
from pipeline.ports.removals import Removals, Removed

_LATECOMERS = timedelta(minutes=15)
"""By then a device that was at a page when its job was cancelled has noticed; what it stored meanwhile goes, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """The use case, over its ports."""

    rows: Removals
    objects: ObjectStore

    def __call__(self, job_id: JobId) -> bool:
        """Delete an ended job; whether it was there, and had ended."""
        removed = self.rows.remove(job_id)
        if removed is None:
            return False
        self._remove_content(removed)
        return True

    def sweep(self) -> None:
        """Remove what was left in the store, or came there late."""
        for removed in self.rows.left(_LATECOMERS):
            self._remove_content(removed)
            self.rows.forget(removed.job_id)

    def _remove_content(self, removed: Removed) -> None:
        doomed = [stored.key for stored in self.objects.listing(keys.of_job(removed.job_id))]
        self.objects.delete([*doomed, removed.upload_key] if removed.upload_key else doomed)
        if removed.sha256 is None:
            return
        # An original lies there once for all jobs that submitted the same bytes.
        with self.rows.unused(removed.sha256) as nobody_has_it:
            if nobody_has_it:
                self.objects.delete([keys.original(removed.sha256)])
