"""A client of the HTTP API (docs/api.md), typed as the API is; `muniment --server` works through it."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID, uuid4

import urllib3
from pydantic import BaseModel

from pipeline.api.schemas import (
    Batch,
    FlaggedPage,
    Job,
    JobDetail,
    JobFields,
    JobIds,
    JobList,
    Page,
    PageList,
    ReviewList,
    Upload,
)
from pipeline.domain.options import OutputFormat
from pipeline.domain.upload_parts import PART_BYTES, Cut

Model = TypeVar("Model", bound=BaseModel)
Listing = TypeVar("Listing", JobList, PageList, ReviewList)
NO_FIELDS = JobFields()
_AWAY = (429, 502, 503, 504)
_PIECE_BYTES = 1024**2
_PATIENT = urllib3.Retry(
    total=8, backoff_factor=0.5, backoff_max=30, status_forcelist=_AWAY, allowed_methods=None, raise_on_status=False
)
"""For what may be asked twice: about two minutes."""
_ONCE = urllib3.Retry(total=3, read=0, other=0, status=0, backoff_factor=0.5, allowed_methods=None)
"""For what may not: only while no connection is made."""


class ApiError(Exception):
    """The server did not do what was asked; `code` never changes its meaning (docs/api.md#errors)."""

    def __init__(self, status: int, code: str, detail: str, *, location: str | None = None) -> None:
        super().__init__(f"{detail} ({code})")
        self.status = status
        """Of the HTTP answer; 0 where there was none."""
        self.code = code
        self.location = location


class Client:
    """Asks one server with one key. Safe to share between threads. All methods raise ApiError."""

    def __init__(self, url: str, key: str, *, timeout: timedelta = timedelta(seconds=60)) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        self._pool = urllib3.PoolManager(timeout=timeout.total_seconds())

    # --- hand in

    def submit(self, path: Path, fields: JobFields = NO_FIELDS, *, idempotency_key: str | None = None) -> Job:
        """Hand in a file, in parts if it has more than 8 MiB.

        Args: the same idempotency key again gives the same job, or goes on with the parts that are missing.
        """
        named = fields if fields.name else fields.model_copy(update={"name": path.name})
        key = idempotency_key or str(uuid4())
        with path.open("rb") as file:
            size_bytes = path.stat().st_size
            if size_bytes > PART_BYTES:
                return self._submit_in_parts(file, size_bytes, named, key)
            form = [*_flat(named), ("file", (path.name, file.read(), "application/octet-stream"))]
        return self._ask(Job, "POST", "/v1/jobs", form=form, headers={"Idempotency-Key": key})

    def submit_uri(self, uri: str, fields: JobFields = NO_FIELDS, *, idempotency_key: str | None = None) -> Job:
        """Hand in what the server fetches by itself."""
        content = {"source_uri": uri, **_given(fields)}
        headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
        return self._ask(Job, "POST", "/v1/jobs", content=content, headers=headers)

    def _submit_in_parts(self, file: BinaryIO, size_bytes: int, fields: JobFields, key: str) -> Job:
        try:
            upload = self._ask(
                Upload, "POST", "/v1/uploads", content={"size_bytes": size_bytes}, headers={"Idempotency-Key": key}
            )
        except ApiError as error:
            if error.code != "idempotency_key_reused" or error.location is None:
                raise
            return self._ask(JobDetail, "GET", error.location)
        there = {part.number: part.sha256 for part in upload.parts}
        cut = Cut(size_bytes=upload.size_bytes, part_bytes=upload.part_bytes)
        for number in range(1, cut.parts + 1):
            content = file.read(cut.bytes_of(number))
            if there.get(number) != hashlib.sha256(content).hexdigest():
                self._call("PUT", f"/v1/uploads/{upload.id}/parts/{number}", body=content)
        return self._ask(Job, "POST", f"/v1/uploads/{upload.id}/complete", content=_given(fields))

    # --- watch

    def job(self, job_id: UUID) -> JobDetail:
        """Return a job as it is now."""
        return self._ask(JobDetail, "GET", f"/v1/jobs/{job_id}")

    def jobs(self, *, label: str | None = None, state: str | None = None, limit: int | None = None) -> Iterator[Job]:
        """Yield jobs, newest first."""
        wanted = {"label": label, "state": state, "limit": str(min(limit or 200, 200))}
        for found in self._pages(JobList, "/v1/jobs", wanted):
            for job in found.jobs:
                yield job
                if limit is not None and (limit := limit - 1) <= 0:
                    return

    def pages(self, job_id: UUID) -> Iterator[Page]:
        """Yield a job's pages in order, as the ledger has them."""
        for found in self._pages(PageList, f"/v1/jobs/{job_id}/pages", {}):
            yield from found.pages

    def batch(self, label: str) -> Batch:
        """Return the jobs of a label, counted."""
        return self._ask(Batch, "GET", f"/v1/batches/{quote(label, safe='')}")

    def review(
        self,
        *,
        job_id: UUID | None = None,
        label: str | None = None,
        flag: str | None = None,
        min_score: float = 0.0,
        since: datetime | None = None,
    ) -> Iterator[FlaggedPage]:
        """Yield flagged pages of all jobs, the worst first."""
        wanted = {
            "job": None if job_id is None else str(job_id),
            "label": label,
            "flag": flag,
            "min_score": str(min_score),
            "since": None if since is None else since.isoformat(),
        }
        for found in self._pages(ReviewList, "/v1/review", wanted):
            yield from found.pages

    def wait(self, job_id: UUID, *, within: timedelta, every: timedelta = timedelta(seconds=1)) -> JobDetail:
        """Return the job once it has ended. Raises: TimeoutError."""
        deadline = time.monotonic() + within.total_seconds()
        while not (job := self.job(job_id)).state.is_terminal:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job_id} is {job.state}, not ended within {within}")
            time.sleep(every.total_seconds())
        return job

    # --- fetch

    @contextmanager
    def result(self, job_id: UUID, form: OutputFormat = OutputFormat.JSON) -> Iterator[Iterator[bytes]]:
        """Stream an output in pieces of at most 1 MiB."""
        answer = self._call("GET", f"/v1/jobs/{job_id}/result?format={form}", is_streamed=True)
        if location := answer.get_redirect_location():
            answer.drain_conn()
            # The link holds by itself; our key is nobody's there.
            answer = self._pool.request("GET", location, preload_content=False, retries=_PATIENT)
            _check(answer)
        try:
            yield answer.stream(_PIECE_BYTES)
        finally:
            answer.close()

    # --- act

    def cancel(self, job_id: UUID) -> Job:
        """Cancel a job at its next page."""
        return self._ask(Job, "POST", f"/v1/jobs/{job_id}/cancel")

    def pause(self, job_id: UUID) -> Job:
        """Let a job wait."""
        return self._ask(Job, "POST", f"/v1/jobs/{job_id}/pause")

    def resume(self, job_id: UUID) -> Job:
        """Let a paused job go on."""
        return self._ask(Job, "POST", f"/v1/jobs/{job_id}/resume")

    def change(self, job_id: UUID, **wanted: Any) -> Job:
        """Change `priority`, `deadline` or `hours` of a job."""
        return self._ask(Job, "PATCH", f"/v1/jobs/{job_id}", content=wanted)

    def act_on_batch(self, label: str, act: str) -> list[UUID]:
        """Do `cancel`, `pause` or `resume` to all open jobs of a label; return which they are."""
        return self._ask(JobIds, "POST", f"/v1/batches/{quote(label, safe='')}/{act}").jobs

    def change_batch(self, label: str, **wanted: Any) -> list[UUID]:
        """Change the open jobs of a label; return which they are."""
        return self._ask(JobIds, "PATCH", f"/v1/batches/{quote(label, safe='')}", content=wanted).jobs

    def retry(self, job_id: UUID, **wanted: Any) -> Job:
        """Begin an ended job again, with `all_pages`, `options` and `password` as the API has them."""
        return self._ask(Job, "POST", f"/v1/jobs/{job_id}/retry", content=wanted, retries=_ONCE)

    def delete(self, job_id: UUID) -> None:
        """Delete an ended job and all that belongs to it."""
        self._call("DELETE", f"/v1/jobs/{job_id}", retries=_ONCE)

    # --- how it is asked

    def _pages(self, model: type[Listing], path: str, wanted: Mapping[str, str | None]) -> Iterator[Listing]:
        query = {name: value for name, value in wanted.items() if value is not None}
        while True:
            found = self._ask(model, "GET", f"{path}?{urlencode(query)}")
            yield found
            if found.next is None:
                return
            query["cursor"] = str(found.next)

    def _ask(self, model: type[Model], method: str, path: str, **request: Any) -> Model:
        return model.model_validate_json(self._call(method, path, **request).data)

    def _call(
        self,
        method: str,
        path: str,
        *,
        content: Mapping[str, Any] | None = None,
        form: list[tuple[str, Any]] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        retries: urllib3.Retry = _PATIENT,
        is_streamed: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        request: dict[str, Any] = {"body": body}
        if content is not None:
            request = {"json": content}
        elif form is not None:
            request = {"fields": form}
        try:
            answer = self._pool.request(
                method,
                self._url + path,
                headers={**self._headers, **(headers or {})},
                redirect=False,
                retries=retries,
                preload_content=not is_streamed,
                **request,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(0, "unreachable", f"{self._url} did not answer: {error}") from error
        return _check(answer)


def _check(answer: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    if answer.status < 400:
        return answer
    try:
        problem = json.loads(answer.data)
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        # Something between us and the API, such as a proxy.
        code, detail = "no_problem_details", f"the server answered {answer.status} {answer.reason or ''}".strip()
    raise ApiError(answer.status, code, detail, location=answer.headers.get("Location"))


def _given(fields: JobFields) -> dict[str, Any]:
    """Return the fields that were given, as JSON has them."""
    given = fields.model_dump(mode="json", exclude_unset=True, exclude={"password"})
    return given | ({"password": fields.password.reveal} if fields.password else {})


def _flat(fields: JobFields) -> list[tuple[str, str]]:
    """Return them as a form has them."""
    given = _given(fields)
    options = given.pop("options", {})
    repeated = {
        "format": options.pop("formats", None),
        "language": options.pop("languages", None),
        "callback_event": given.pop("callback_events", None),
    }
    plain = {**given, **{name: value for name, value in options.items() if value is not None}}
    return [
        *((name, str(value)) for name, value in plain.items()),
        *((name, value) for name, values in repeated.items() for value in values or ()),
    ]
