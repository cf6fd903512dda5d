"""Ingest: fetch the source, check what it is, and store it under its content hash."""

import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import structlog

from pipeline.domain import keys
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected
from pipeline.domain.languages import Language
from pipeline.domain.options import parse_options
from pipeline.ports.jobs import ClaimedJob, JobSteps, QueueBounds, StoredOriginal
from pipeline.ports.objects import ObjectStore
from pipeline.ports.web import WebSource
from pipeline.steps.job_step import renewing

log = structlog.get_logger()
_PIECE_BYTES = 1024 * 1024
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRules:
    """Where sources may lie, and how large they may be."""

    file_roots: tuple[Path, ...]
    allows_bucket: Callable[[str, str], bool]
    """Says whether a tenant may name a bucket."""
    own_bucket: str
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """The step, over its ports."""

    jobs: JobSteps
    objects: ObjectStore
    web: WebSource
    rules: SourceRules
    engines: Collection[str]
    """Names that a job may ask for."""
    unread: Callable[[str | None, Sequence[Language]], Sequence[Language]]
    """Gives those of the languages that an engine does not read, the usual one if none is named."""
    media_type_of: Callable[[bytes], str]
    queue: QueueBounds
    renew_every: timedelta

    def __call__(self, job: ClaimedJob) -> None:
        """Store the job's original. Raises: Rejected, if the source or options can't be accepted, or nothing can."""
        self.jobs.check_room(job.claim, self.queue)
        self._check_options(job)
        original = self._already_stored(job) or self._store(job)
        self.jobs.ingested(job.claim, original)
        if self.objects.size(keys.original(original.sha256)) is None:
            # The last other job of this content let go of it before our row named it.
            self._store(job)
        self._forget_upload(job)

    def _check_options(self, job: ClaimedJob) -> None:
        options = parse_options(job.options)
        if options.engine is not None and options.engine not in self.engines:
            there = ", ".join(sorted(self.engines))
            raise Rejected(ErrorCode.INVALID_OPTIONS, f"there is no engine {options.engine}; there are {there}")
        if unread := self.unread(options.engine, options.languages):
            codes = ", ".join(language.code for language in unread)
            engine = f"engine {options.engine}" if options.engine else "the usual engine"
            raise Rejected(ErrorCode.INVALID_OPTIONS, f"languages: {engine} does not read {codes}; ask another")

    def _already_stored(self, job: ClaimedJob) -> StoredOriginal | None:
        """Return the original that an earlier run of this job stored; its upload may be gone by now."""
        if not job.sha256 or not job.media_type or not job.size_bytes:
            return None
        if self.objects.size(keys.original(job.sha256)) != job.size_bytes:
            return None
        return StoredOriginal(sha256=job.sha256, size_bytes=job.size_bytes, media_type=job.media_type)

    def _store(self, job: ClaimedJob) -> StoredOriginal:
        with tempfile.TemporaryFile(prefix="muniment-ingest-") as file, self._fetch(job) as pieces:
            sha256, size_bytes, head = self._copy(renewing(pieces, self.jobs, job.claim, self.renew_every), file)
            media_type = self.media_type_of(head)
            key = keys.original(sha256)
            if self.objects.size(key) != size_bytes:
                file.seek(0)
                self.objects.put(
                    key, renewing(_pieces(file), self.jobs, job.claim, self.renew_every), media_type=media_type
                )
        return StoredOriginal(sha256=sha256, size_bytes=size_bytes, media_type=media_type)

    def _copy(self, pieces: Iterable[bytes], file: BinaryIO) -> tuple[str, int, bytes]:
        digest, size, head = hashlib.sha256(), 0, b""
        for piece in pieces:
            size += len(piece)
            if size > self.rules.max_bytes:
                raise Rejected(
                    ErrorCode.FILE_TOO_LARGE,
                    f"the file has more than {self.rules.max_bytes} bytes (limits.max_file_bytes): split it up first",
                )
            if len(head) < _HEAD_BYTES:
                head += piece[: _HEAD_BYTES - len(head)]
            digest.update(piece)
            file.write(piece)
        return digest.hexdigest(), size, head

    @contextmanager
    def _fetch(self, job: ClaimedJob) -> Iterator[Iterator[bytes]]:
        if job.upload_key is not None:
            with self.objects.get(job.upload_key) as pieces:
                yield pieces
            return
        uri = urlsplit(job.source_uri or "")
        match uri.scheme:
            case "s3":
                bucket, key = uri.netloc, unquote(uri.path).lstrip("/")
                self._check_bucket(job.tenant, bucket, key)
                with self.objects.get(key, bucket=bucket) as pieces:
                    yield pieces
            case "file":
                with self._open_file(uri.netloc, unquote(uri.path)) as file:
                    yield _pieces(file)
            case "https" | "http":
                with self.web.get(job.source_uri or "") as pieces:
                    yield pieces
            case scheme:
                raise Rejected(
                    ErrorCode.SOURCE_NOT_ALLOWED,
                    f"sources are s3://bucket/key, https://host/path or file:///path, not {scheme or 'bare'}",
                )

    def _check_bucket(self, tenant: str, bucket: str, key: str) -> None:
        is_internal = bucket == self.rules.own_bucket and key.startswith(keys.INTERNAL)
        if is_internal or not self.rules.allows_bucket(tenant, bucket):
            raise Rejected(
                ErrorCode.SOURCE_NOT_ALLOWED, f"s3://{bucket}/{key} is not among the allowed sources (sources.buckets)"
            )

    def _open_file(self, host: str, path: str) -> BinaryIO:
        # Resolved first, so that neither ".." nor a link leads out of the roots.
        resolved = Path(path).resolve()
        allowed = any(resolved.is_relative_to(root.resolve()) for root in self.rules.file_roots)
        if host not in ("", "localhost") or not allowed:
            raise Rejected(
                ErrorCode.SOURCE_NOT_ALLOWED, f"file://{host}{path} lies below no allowed folder (sources.file_roots)"
            )
        if not resolved.is_file():
            raise Rejected(ErrorCode.SOURCE_NOT_FOUND, f"there is no file {path} on the host that ingests")
        try:
            return resolved.open("rb")
        except PermissionError as error:
            raise Rejected(ErrorCode.SOURCE_NOT_ALLOWED, f"file://{path} can't be read by this user") from error

    def _forget_upload(self, job: ClaimedJob) -> None:
        if job.upload_key is None:
            return
        try:
            self.objects.delete([job.upload_key])
        except PipelineError as error:
            # The job has moved on; what is left behind is garbage, not a fault of the job.
            log.warning("upload_left_behind", key=job.upload_key, detail=str(error))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece
