"""How far a job is, which is asked most, told without FastAPI's way to its route, which costs more than the answer."""

from uuid import UUID

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pipeline.api import jobs
from pipeline.api.callers import Caller
from pipeline.api.problems import of_error
from pipeline.api.service import Service
from pipeline.domain import api_keys
from pipeline.domain.document import JobId
from pipeline.domain.errors import PipelineError

_ROUTE = next(each for each in jobs.router.routes if isinstance(each, Route) and each.endpoint is jobs.job)


class Shortcut:
    """ASGI middleware, behind the door: it tells a job that is there to who may read; all else is left to the route."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        job_id = _job_asked_for(scope)
        caller: Caller | None = scope.get("state", {}).get("caller")
        if job_id is None or caller is None or api_keys.Scope.READ not in caller.grant.scopes:
            await self._app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        try:
            found = await self._service.details.ask((caller.tenant, job_id))
        except PipelineError as error:
            await of_error(error).response()(scope, receive, send)
            return
        if found is None:
            await self._app(scope, receive, send)
        else:
            await Response(found, media_type="application/json")(scope, receive, send)


def _job_asked_for(scope: Scope) -> JobId | None:
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    matched = _ROUTE.path_regex.match(scope["path"])
    try:
        return JobId(UUID(matched["job_id"])) if matched else None
    except ValueError:
        return None
