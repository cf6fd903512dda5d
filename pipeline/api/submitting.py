"""`POST /v1/jobs`: a document as a raw body, in a form, or by its URI."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from starlette.concurrency import run_in_threadpool

from pipeline.api import schemas
from pipeline.api.callers import Caller, Submitter
from pipeline.api.documentation import SUBMISSION, answers
from pipeline.api.intake import combined, job_fields, take_body, take_form, validated
from pipeline.api.problems import ApiCode, Problem, too_many
from pipeline.api.schemas import IdempotencyKey, Job, JobFields, Source
from pipeline.api.service import Served, Service
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected
from pipeline.domain.web import NotAllowed, parse_target
from pipeline.ports.submissions import JobStatus, Submission

router = APIRouter(tags=["submit"])
NAMELESS = "document"


@router.post(
    "/v1/jobs",
    status_code=201,
    response_model=Job,
    openapi_extra=SUBMISSION,
    responses=answers(
        {200: {"model": Job, "description": "The job that this idempotency key named before."}},
        *(400, 401, 403, 409, 413, 415, 422, 429, 503),
    ),
)
async def submit(
    request: Request,
    response: Response,
    service: Served,
    caller: Submitter,
    idempotency_key: Annotated[IdempotencyKey | None, Header()] = None,
) -> Job:
    """Hand in one document.

    A file comes as the body itself (any content type but the two below; what it is, is told by its bytes), or as the
    part `file` of `multipart/form-data`, or as `application/json` that names a `source_uri`. Fields stand in the query;
    in a form or in JSON, too, where they go before those of the query.
    """
    await run_in_threadpool(check_quota, service, caller)
    fields = job_fields(request.query_params.multi_items(), at="query")
    match request.headers.get("content-type", "").partition(";")[0].strip().lower():
        case "application/json":
            source = await _source(request)
            check_source(service, caller, source)
            fields = combined(source, fields)
            check_callback(service, fields)
            submission = as_submission(caller, fields, source_uri=source.source_uri, source_name=fields.name)
        case "multipart/form-data":
            taken = await take_form(service.intake, request, fields, check=partial(check_callback, service))
            name = taken.fields.name or taken.file_name or NAMELESS
            submission = as_submission(caller, taken.fields, upload_key=taken.key, source_name=name)
        case _:
            check_callback(service, fields)
            taken = await take_body(service.intake, request, fields)
            submission = as_submission(caller, fields, upload_key=taken.key, source_name=fields.name or NAMELESS)
    status, is_new = await run_in_threadpool(enter, service, caller, submission, idempotency_key)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/jobs/{status.job_id}"
    return schemas.job(status)


def check_quota(service: Service, caller: Caller) -> None:
    """Raises: Problem, when the key has used up its pages of today."""
    quota = caller.grant.pages_per_day
    if quota is None or service.keys.pages_today(caller.key_id) < quota:
        return
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    raise too_many(
        ApiCode.QUOTA_EXCEEDED, f"this key may hand in {quota} pages a day", after_s=(midnight - now).total_seconds()
    )


def check_source(service: Service, caller: Caller, source: Source) -> None:
    """Raises: Rejected, unless the settings say that callers may name this bucket, or URLs like this one.

    What the name of a host means is looked up, and checked, when the document is fetched.
    """
    if not source.source_uri.startswith("s3://"):
        try:
            parse_target(source.source_uri, service.settings.sources.web_rules())
        except NotAllowed as error:
            raise Rejected(ErrorCode.SOURCE_NOT_ALLOWED, f"{error} (sources.*)") from error
        return
    bucket, sources = source.source_uri.removeprefix("s3://").partition("/")[0], service.settings.sources
    owns = sources.owns_bucket(caller.tenant, bucket)
    if not (bucket in sources.buckets if owns is None else owns):
        raise Rejected(
            ErrorCode.SOURCE_NOT_ALLOWED,
            f"callers may name no objects of {bucket} (sources.buckets, sources.tenant_buckets): send the file",
        )


def check_callback(service: Service, fields: JobFields) -> None:
    """Raises: Problem, unless the settings say that such URLs may be told; addresses are checked at each attempt."""
    if fields.callback_url is None:
        return
    try:
        parse_target(fields.callback_url, service.settings.webhooks.web_rules())
    except NotAllowed as error:
        raise Problem(403, ApiCode.CALLBACK_NOT_ALLOWED, f"callback_url: {error} (webhooks.*)") from error


def as_submission(caller: Caller, fields: JobFields, **more: Any) -> Submission:
    """Return what makes the job's row."""
    return Submission(
        tenant=caller.tenant,
        api_key_id=caller.key_id,
        label=fields.label,
        priority=fields.priority,
        deadline=fields.deadline,
        hours=fields.hours,
        password=fields.password,
        callback_url=fields.callback_url,
        callback_events=tuple(fields.callback_events or ()),
        options=schemas.options_given(fields.options),
        **more,
    )


def enter(
    service: Service,
    caller: Caller,
    submission: Submission,
    idempotency_key: str | None,
    *,
    may_come_again: bool = False,
) -> tuple[JobStatus, bool]:
    """Insert the row; return the job, and whether it is new.

    What was uploaded for no new job is removed, unless it may come again.
    Raises: Problem, if the key named another job.
    """
    keyed = replace(submission, idempotency_key=idempotency_key)
    try:
        [entered] = service.submissions_of(caller).enter([keyed])
    except BaseException:
        if not may_come_again:
            _forget(service, submission)
        raise
    status = service.job(caller, entered.job_id)
    if not entered.is_new:
        if not may_come_again:
            _forget(service, submission)
        if (status.source_uri, status.options) != (submission.source_uri, submission.options):
            raise Problem(
                409,
                ApiCode.IDEMPOTENCY_KEY_REUSED,
                f"this idempotency key named job {status.job_id} before, of another source or with other options",
            )
    return status, entered.is_new


def _forget(service: Service, submission: Submission) -> None:
    if submission.upload_key is not None:
        with suppress(PipelineError):
            service.objects.delete([submission.upload_key])


async def _source(request: Request) -> Source:
    try:
        content = await request.json()
    except ValueError as error:
        raise Problem(422, ApiCode.INVALID_REQUEST, "the body is not JSON") from error
    return validated(Source, content, at="body")
