"""Errors as callers get them: problem details (RFC 9457) with a code that never changes its meaning."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pipeline.domain.errors import ErrorCode, PipelineError, Rejected, Transient

log = structlog.get_logger()
MEDIA_TYPE = "application/problem+json"


class ApiCode(StrEnum):
    """What can be wrong with a request; what can be wrong with a document has the codes of `ErrorCode`."""

    INVALID_REQUEST = "invalid_request"
    NOT_AUTHENTICATED = "not_authenticated"
    ADDRESS_NOT_ALLOWED = "address_not_allowed"
    NOT_PERMITTED = "not_permitted"
    CALLBACK_NOT_ALLOWED = "callback_not_allowed"
    NOT_FOUND = "not_found"
    NO_RESULT = "no_result"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_FINISHED = "not_finished"
    HAS_ENDED = "has_ended"
    NOTHING_TO_RETRY = "nothing_to_retry"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    REQUEST_TOO_LARGE = "request_too_large"
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    BUSY = "busy"
    INTERNAL = "internal"


_STATUS_OF = {
    ErrorCode.SOURCE_NOT_ALLOWED: 403,
    ErrorCode.FILE_TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_TYPE: 415,
    ErrorCode.NOT_A_DOCUMENT: 415,
}
"""Of documents that can't be taken; all others are 422."""
_CODE_OF_STATUS = {
    404: ApiCode.NOT_FOUND,
    405: ApiCode.METHOD_NOT_ALLOWED,
    413: ApiCode.REQUEST_TOO_LARGE,
}
_RETRY_AFTER_S = 5


class Problem(Exception):
    """A request that can't be answered as it was meant."""

    def __init__(
        self,
        status: int,
        code: ApiCode | ErrorCode,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        errors: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.errors = list(errors)

    def response(self) -> JSONResponse:
        """Return the answer."""
        content: dict[str, Any] = {
            "type": f"urn:muniment:error:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.status,
            "code": self.code.value,
            "detail": self.detail,
        }
        if self.errors:
            content["errors"] = self.errors
        return JSONResponse(content, self.status, headers=self.headers, media_type=MEDIA_TYPE)


def not_found() -> Problem:
    """Say that there is no such job; of another tenant's nothing else is said."""
    return Problem(404, ApiCode.NOT_FOUND, "there is nothing here by that name")


def of_error(error: PipelineError) -> Problem:
    """Return what a caller hears of an error of ours."""
    match error:
        case Rejected():
            return Problem(_STATUS_OF.get(error.code, 422), error.code, error.message)
        case Transient() | PipelineError(code=ErrorCode.ENGINE_UNAVAILABLE):
            # The message may name hosts; whoever runs the service finds it in the log.
            log.warning("answered_unavailable", code=error.code, detail=error.message)
            return Problem(
                503, error.code, "a service that this needs is away: try again", headers=_retry_after(_RETRY_AFTER_S)
            )
        case _:
            log.error("answered_internal", code=error.code, detail=error.message)
            return Problem(500, error.code, "this went wrong on our side")


def too_many(code: ApiCode, detail: str, *, after_s: float) -> Problem:
    """Say that it may work later."""
    return Problem(429, code, detail, headers=_retry_after(after_s))


def register(app: FastAPI) -> None:
    """Let the application answer all its errors so."""

    @app.exception_handler(Problem)
    async def _problem(_: Request, problem: Problem) -> JSONResponse:
        return problem.response()

    @app.exception_handler(PipelineError)
    async def _pipeline_error(_: Request, error: PipelineError) -> JSONResponse:
        return of_error(error).response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        # What was sent is not repeated: it may be a password, and need not be text.
        errors = [
            {"at": ".".join(str(part) for part in found["loc"]), "message": found["msg"]} for found in error.errors()
        ]
        return Problem(422, ApiCode.INVALID_REQUEST, "the request is not as it should be", errors=errors).response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        code = _CODE_OF_STATUS.get(error.status_code, ApiCode.INVALID_REQUEST)
        # Starlette 1.10 names the methods of the first route of a path only.
        headers = {"Allow": _methods(request)} if error.status_code == 405 else error.headers
        return Problem(error.status_code, code, str(error.detail).lower(), headers=headers).response()

    @app.exception_handler(Exception)
    async def _unexpected(_: Request, error: Exception) -> JSONResponse:  # noqa: ARG001 - the server logs it
        return Problem(500, ApiCode.INTERNAL, "this went wrong on our side").response()


def _methods(request: Request) -> str:
    """Return what may be asked of a path, as `Allow` says it."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [route.methods or set() for route in routes if route.path_regex.match(request.url.path)]
    return ", ".join(sorted(set().union(*found)))


def _retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, round(seconds)))}
