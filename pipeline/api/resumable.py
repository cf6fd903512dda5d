"""`/v1/uploads`: a document in parts, over any number of connections, processes and days; the last step makes a job."""

import hashlib
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import APIRouter, Body, Header, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from pipeline.adapters.documents.sniff import HEAD_BYTES, media_type_of
from pipeline.adapters.uploads import NoSuchUpload, OpenUpload, TakenPart, TooManyUploads
from pipeline.api import schemas
from pipeline.api.callers import Caller, Submitter
from pipeline.api.documentation import answers, problems
from pipeline.api.intake import take_exactly
from pipeline.api.problems import ApiCode, Problem, not_found, too_many
from pipeline.api.schemas import IdempotencyKey, Job, JobFields, NewUpload
from pipeline.api.service import Served, Service
from pipeline.api.submitting import NAMELESS, as_submission, check_callback, check_quota, enter
from pipeline.domain import keys
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.upload_parts import MAX_PARTS, cut
from pipeline.ports.submissions import JobStatus

router = APIRouter(tags=["submit"])
_TRY_AGAIN_S = 60


@router.post(
    "/v1/uploads",
    status_code=201,
    response_model=schemas.Upload,
    responses=answers(
        {200: {"model": schemas.Upload, "description": "The upload that is open under this idempotency key."}},
        *(401, 403, 409, 413, 422, 429, 503),
    ),
)
def begin(
    *,
    response: Response,
    service: Served,
    caller: Submitter,
    wanted: NewUpload,
    idempotency_key: Annotated[IdempotencyKey | None, Header()] = None,
) -> schemas.Upload:
    """Begin a document that comes in parts; the answer says how it is to be cut.

    The idempotency key is its job's: while the upload is open, the same key gives the same upload, to be gone on with.
    """
    check_quota(service, caller)
    service.intake.check_size(wanted.size_bytes)
    if idempotency_key:
        _check_key(service, caller, idempotency_key)
    asked = _begun(service, wanted.size_bytes, idempotency_key)
    upload = _entered(service, caller, asked)
    response.status_code = 201 if upload.upload_id == asked.upload_id else 200
    response.headers["Location"] = f"/v1/uploads/{upload.upload_id}"
    return _shown(service, upload)


@router.get("/v1/uploads/{upload_id}", responses=problems(401, 403, 404, 422, 429, 503))
def look(service: Served, caller: Submitter, upload_id: UUID) -> schemas.Upload:
    """Show which parts have arrived, for whoever goes on with it."""
    return _shown(service, _open(service, caller, upload_id))


@router.put(
    "/v1/uploads/{upload_id}/parts/{number}",
    responses=problems(400, 401, 403, 404, 415, 422, 429, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def take_part(
    request: Request,
    service: Served,
    caller: Submitter,
    upload_id: UUID,
    number: Annotated[int, Path(ge=1, le=MAX_PARTS)],
) -> schemas.Part:
    """Take a part, in any order; the same number again replaces it."""
    upload = await run_in_threadpool(_open, service, caller, upload_id)
    try:
        due = upload.cut.bytes_of(number)
    except ValueError as error:
        raise Problem(422, ApiCode.INVALID_REQUEST, str(error)) from error
    content = await take_exactly(service.intake, request, due)
    if number == 1:
        media_type_of(content[:HEAD_BYTES])
    return _part(await run_in_threadpool(_keep, service, upload, number, content))


@router.post(
    "/v1/uploads/{upload_id}/complete",
    status_code=201,
    response_model=Job,
    responses=answers(
        {200: {"model": Job, "description": "The job that it has become before."}},
        *(401, 403, 404, 409, 422, 429, 503),
    ),
)
def complete(
    *,
    response: Response,
    service: Served,
    caller: Submitter,
    upload_id: UUID,
    fields: Annotated[JobFields, Body()] = JobFields(),  # noqa: B008
) -> Job:
    """Make a job of it once all parts are there. Asked again, it answers with the same job."""
    upload = _known(service, caller, upload_id)
    before = service.submissions.named(upload.idempotency_key, tenant=caller.tenant)
    response.status_code = 200 if before else 201
    status = before or _made(service, caller, upload, fields)
    service.open_uploads.complete(upload_id)
    response.headers["Location"] = f"/v1/jobs/{status.job_id}"
    return schemas.job(status)


@router.delete("/v1/uploads/{upload_id}", status_code=204, responses=problems(401, 403, 404, 422, 429, 503))
def give_up(service: Served, caller: Submitter, upload_id: UUID) -> None:
    """Forget an upload and all its parts."""
    upload = _open(service, caller, upload_id)
    if service.submissions.named(upload.idempotency_key, tenant=caller.tenant):
        raise not_found()
    try:
        service.uploads.abort(upload.key, upload.store_id)
    except Rejected:
        # It was whole already, and no job of it.
        service.objects.delete([upload.key])
    service.open_uploads.remove(upload_id)


def _check_key(service: Service, caller: Caller, idempotency_key: str) -> None:
    """Raises: Problem, which says where the job is that the key names."""
    if status := service.submissions.named(idempotency_key, tenant=caller.tenant):
        raise Problem(
            409,
            ApiCode.IDEMPOTENCY_KEY_REUSED,
            f"this idempotency key names job {status.job_id}, which is there already",
            headers={"Location": f"/v1/jobs/{status.job_id}"},
        )


def _begun(service: Service, size_bytes: int, idempotency_key: str | None) -> OpenUpload:
    upload_id = uuid4()
    return OpenUpload(
        upload_id=upload_id,
        idempotency_key=idempotency_key or f"upload:{upload_id}",
        store_id=service.uploads.begin(keys.upload(upload_id)),
        cut=cut(size_bytes),
        created_at=datetime.now(UTC),
    )


def _entered(service: Service, caller: Caller, asked: OpenUpload) -> OpenUpload:
    try:
        upload = service.open_uploads.begin(
            asked, tenant=caller.tenant, api_key_id=caller.key_id, at_most=service.settings.api.open_uploads
        )
    except TooManyUploads as error:
        service.uploads.abort(asked.key, asked.store_id)
        raise too_many(
            ApiCode.BUSY, f"{error} for this tenant: finish or give up some of them", after_s=_TRY_AGAIN_S
        ) from error
    if upload.upload_id != asked.upload_id:
        service.uploads.abort(asked.key, asked.store_id)
    if upload.cut.size_bytes != asked.cut.size_bytes:
        raise Problem(
            409,
            ApiCode.IDEMPOTENCY_KEY_REUSED,
            f"this idempotency key names upload {upload.upload_id}, which is of {upload.cut.size_bytes} bytes",
        )
    return upload


def _known(service: Service, caller: Caller, upload_id: UUID) -> OpenUpload:
    try:
        return service.open_uploads.find(upload_id, caller.tenant)
    except NoSuchUpload as error:
        raise not_found() from error


def _open(service: Service, caller: Caller, upload_id: UUID) -> OpenUpload:
    upload = _known(service, caller, upload_id)
    if upload.is_complete:
        raise not_found()
    return upload


def _keep(service: Service, upload: OpenUpload, number: int, content: bytes) -> TakenPart:
    try:
        stored = service.uploads.put(upload.key, upload.store_id, number, content)
        part = TakenPart(stored=stored, sha256=hashlib.sha256(content).hexdigest())
        service.open_uploads.add(upload.upload_id, part)
    except (Rejected, NoSuchUpload) as error:
        raise not_found() from error
    return part


def _made(service: Service, caller: Caller, upload: OpenUpload, fields: JobFields) -> JobStatus:
    check_quota(service, caller)
    check_callback(service, fields)
    try:
        _join(service, upload)
    except Problem:
        # Whoever asked at the same time may have been faster.
        if status := service.submissions.named(upload.idempotency_key, tenant=caller.tenant):
            return status
        raise
    submission = as_submission(caller, fields, upload_key=upload.key, source_name=fields.name or NAMELESS)
    # One upload is one job, however often and in how many places this is asked.
    status, _ = enter(service, caller, submission, upload.idempotency_key, may_come_again=True)
    return status


def _join(service: Service, upload: OpenUpload) -> None:
    """Make one object of the parts. Raises: Problem, if parts are missing, or the store has lost them."""
    if upload.missing:
        first = ", ".join(map(str, upload.missing[:10]))
        raise Problem(
            409, ApiCode.NOT_FINISHED, f"{len(upload.missing)} of {upload.cut.parts} parts are missing: {first} first"
        )
    try:
        service.uploads.finish(upload.key, upload.store_id, [part.stored for part in upload.parts])
    except Rejected as error:
        # Somebody may have come so far before, and died: then the object is there.
        if error.code is not ErrorCode.SOURCE_NOT_FOUND or service.objects.size(upload.key) != upload.cut.size_bytes:
            raise not_found() from error


def _part(part: TakenPart) -> schemas.Part:
    return schemas.Part(number=part.stored.number, size_bytes=part.stored.size_bytes, sha256=part.sha256)


def _shown(service: Service, upload: OpenUpload) -> schemas.Upload:
    return schemas.Upload(
        id=upload.upload_id,
        size_bytes=upload.cut.size_bytes,
        part_bytes=upload.cut.part_bytes,
        part_count=upload.cut.parts,
        parts=[_part(part) for part in upload.parts],
        created_at=upload.created_at,
        expires_at=upload.created_at + service.settings.retention.uploads,
    )
