"""Results: small ones in the answer, large ones behind a link; any part of them, as often as wanted."""

import hashlib
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse, RedirectResponse

from pipeline.adapters.writers import OUTPUTS
from pipeline.api.callers import Reader
from pipeline.api.documentation import answers
from pipeline.api.problems import ApiCode, Problem, not_found
from pipeline.api.ranges import Range, parse_range
from pipeline.api.service import Served, Service
from pipeline.domain.document import JobId
from pipeline.domain.errors import Rejected
from pipeline.domain.options import OutputFormat
from pipeline.domain.recognition import PageResult
from pipeline.domain.serialisation import decode_segment, to_json
from pipeline.ports.job_views import PageRow
from pipeline.ports.submissions import JobStatus

router = APIRouter(tags=["fetch"])
_CONTENT: dict[str, Any] = {OUTPUTS[form].media_type.partition(";")[0]: {} for form in OutputFormat}


class PageForm(StrEnum):
    """In which form a page is fetched."""

    JSON = "json"
    TEXT = "text"
    IMAGE = "image"


@router.get(
    "/v1/jobs/{job_id}/result",
    response_class=Response,
    responses=answers(
        {
            200: {"description": "The result.", "content": _CONTENT},
            206: {"description": "The part of it that was asked for.", "content": _CONTENT},
            303: {"description": "A large result: fetch it at `Location`, which holds for a while."},
            304: {"description": "It is the one that you have."},
        },
        *(401, 403, 404, 409, 416, 422, 429, 503),
    ),
)
def result(
    *,
    service: Served,
    caller: Reader,
    job_id: UUID,
    form: Annotated[OutputFormat, Query(alias="format")] = OutputFormat.JSON,
    range_: Annotated[str | None, Header(alias="range", max_length=100)] = None,
    if_range: Annotated[str | None, Header(max_length=100)] = None,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> Response:
    """Fetch a result. It stays as long as its job does."""
    status = service.job(caller, JobId(job_id))
    key = _key(status, form)
    # A result is never written over: each export has keys of its own.
    etag = f'"{hashlib.sha256(key.encode()).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Accept-Ranges": "bytes", "Cache-Control": "private, no-cache"}
    if if_none_match and etag in [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]:
        return Response(status_code=304, headers=headers)
    size = service.objects.size(key)
    if size is None:
        raise Problem(404, ApiCode.NO_RESULT, f"the store no longer has the {form} of job {job_id}")
    output = OUTPUTS[form]
    headers["Content-Disposition"] = _disposition(status.source_name, output.file_name)
    if size > service.settings.api.inline_bytes:
        return _elsewhere(service, key, output.media_type, headers)
    wanted = parse_range(range_, size) if range_ and if_range in (None, etag) else None
    return _answer(service, key, size=size, wanted=wanted, media_type=output.media_type, headers=headers)


@router.get(
    "/v1/jobs/{job_id}/pages/{number}",
    response_class=Response,
    responses=answers(
        {200: {"description": "The page.", "content": {"application/json": {}, "text/plain": {}, "image/png": {}}}},
        *(401, 403, 404, 409, 422, 429, 503),
    ),
)
def page(
    *,
    service: Served,
    caller: Reader,
    job_id: UUID,
    number: Annotated[int, Path(ge=1, le=2**31 - 1)],
    form: Annotated[PageForm, Query(alias="format")] = PageForm.JSON,
    dpi: Annotated[Literal["72", "150", "300"], Query(description="Of an image.")] = "150",
) -> Response:
    """Fetch one page: what was read, as JSON or text, as soon as it was; or what it looks like, as PNG."""
    status = service.job(caller, JobId(job_id))
    row = service.views.page(status.job_id, number)
    if row is None:
        raise not_found()
    if form is PageForm.IMAGE:
        return _image(service, status, number, int(dpi))
    if row.outcome is None:
        raise Problem(409, ApiCode.NOT_FINISHED, f"page {number} is not read yet")
    found = _read_page(service, row)
    if form is PageForm.TEXT:
        return Response(str(found["text"]), media_type="text/plain; charset=utf-8")
    return JSONResponse(found)


def _image(service: Service, status: JobStatus, number: int, dpi: int) -> Response:
    try:
        return Response(service.page_images.png(status, number, dpi), media_type="image/png")
    except Rejected as error:
        raise Problem(404, ApiCode.NO_RESULT, error.message) from error


def _key(status: JobStatus, form: OutputFormat) -> str:
    key = status.result_keys.get(form)
    if key is not None:
        return key
    if status.state.is_terminal:
        raise Problem(404, ApiCode.NO_RESULT, f"job {status.job_id} is {status.state} and has no {form}")
    raise Problem(409, ApiCode.NOT_FINISHED, f"job {status.job_id} is {status.state}; its result is not there yet")


def _elsewhere(service: Service, key: str, media_type: str, headers: dict[str, str]) -> Response:
    link = service.links.link(
        key,
        lives=service.settings.api.link_lifetime,
        media_type=media_type,
        disposition=headers["Content-Disposition"],
    )
    return RedirectResponse(link, 303, headers={"Cache-Control": "no-store", "ETag": headers["ETag"]})


def _answer(
    service: Service, key: str, *, size: int, wanted: Range | None, media_type: str, headers: dict[str, str]
) -> Response:
    if wanted is None:
        with service.objects.get(key) as pieces:
            return Response(b"".join(pieces), media_type=media_type, headers=headers)
    with service.objects.get(key, offset=wanted.first, length=wanted.length) as pieces:
        part = b"".join(pieces)
    return Response(part, 206, media_type=media_type, headers=headers | {"Content-Range": wanted.header(size)})


def _read_page(service: Service, row: PageRow) -> dict[str, object]:
    if row.segment_key is None:
        raise Problem(404, ApiCode.NO_RESULT, f"page {row.number} failed before anything of it was stored")
    with service.objects.get(row.segment_key) as pieces:
        pages: list[PageResult] = [each for each in decode_segment(pieces) if each.number == row.number]
    if not pages:
        raise Problem(404, ApiCode.NO_RESULT, f"the store no longer has page {row.number}")
    return to_json(replace(pages[0], source_file=row.source_file))


def _disposition(source_name: str, file_name: str) -> str:
    """Return a file's name for whoever saves it: the document's, with the format's ending (RFC 6266)."""
    stem, ending = source_name.rpartition("/")[2], file_name.rpartition(".")[2]
    ascii_only = "".join(mark if mark.isalnum() and mark.isascii() else "_" for mark in stem)[:100]
    return f"attachment; filename=\"{ascii_only}.{ending}\"; filename*=UTF-8''{quote(stem, safe='')}.{ending}"
