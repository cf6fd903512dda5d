"""Where everything of a document lies in the store. Keys hold ids and hashes, never names of files."""

from uuid import UUID

from pipeline.domain.document import ChunkId, JobId
from pipeline.domain.profiles import Profile

UPLOADS = "uploads/"


def upload(upload_id: UUID) -> str:
    """Return where a file lies between its arrival and its job's ingest."""
    return f"{UPLOADS}{upload_id}"


def original(sha256: str) -> str:
    """Return where a document lies, once for all jobs that submit the same bytes."""
    return f"originals/{sha256[:2]}/{sha256}"


def segment(job: JobId, chunk: ChunkId, attempt: int, ordinal: int) -> str:
    """Return where an attempt puts its n-th group of finished pages; a stale attempt can't overwrite a newer one's."""
    return f"jobs/{job}/chunks/{chunk}/{attempt}/{ordinal:05}.jsonl"


def rendered_page(job: JobId, chunk: ChunkId, number: int, dpi: float | None, profile: Profile) -> str:
    """Return where a page lies that was rendered ahead, at this resolution or, with None, at the profile's for it."""
    return f"jobs/{job}/chunks/{chunk}/pages/{number:06}-{profile if dpi is None else f'{dpi:g}'}.png"


def bound_pages(job: JobId, attempt: int) -> str:
    """Return where a merge puts all pages of a document, in order."""
    return f"jobs/{job}/document/{attempt}/pages.jsonl"


def result(job: JobId, attempt: int, file_name: str) -> str:
    """Return where an export puts one output."""
    return f"jobs/{job}/results/{attempt}/{file_name}"


def page_image(job: JobId, number: int, dpi: int) -> str:
    """Return where the image of a page lies that somebody looked at."""
    return f"jobs/{job}/images/{number:06}-{dpi}.png"


def of_job(job: JobId) -> str:
    """Return the beginning of all keys that belong to one job alone."""
    return f"jobs/{job}/"


PROBE = "muniment-start"
"""Written over whenever a process starts, never removed: that would need one more permission."""

INTERNAL = (UPLOADS, "originals/", "jobs/")
"""Prefixes of our own bucket that no source may name."""
