"""Who calls: every request is held until its key is known, allowed from where it comes, and within its rate."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from pipeline.adapters.api_keys import KeyState, PostgresApiKeys
from pipeline.adapters.rate_limits import RateLimits
from pipeline.api.problems import ApiCode, Problem, of_error, too_many
from pipeline.domain.api_keys import KeyGrant, Scope, parse_token
from pipeline.domain.errors import PipelineError

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose request it is."""

    key_id: str
    grant: KeyGrant
    address: str

    @property
    def tenant(self) -> str:
        """Return whose jobs it is about."""
        return self.grant.tenant

    @property
    def actor(self) -> str:
        """Return what stands on the trail of what it does."""
        return f"key {self.key_id} {self.address}"


class Doorkeeper:
    """Turns a request's key into its caller."""

    def __init__(self, keys: PostgresApiKeys, rates: RateLimits, *, requests_per_minute: int) -> None:
        self._keys = keys
        self._rates = rates
        self._requests_per_minute = requests_per_minute

    def admit(self, authorization: str, address: str) -> Caller:
        """Return the caller. Raises: Problem, PipelineError."""
        kind, _, token = authorization.partition(" ")
        presented = parse_token(token.strip()) if kind.lower() == "bearer" else None
        status = self._keys.check(presented) if presented else None
        if status is None or status.state is not KeyState.LIVE:
            raise Problem(
                401,
                ApiCode.NOT_AUTHENTICATED,
                "send a key that is valid: Authorization: Bearer mun_...",
                headers={"WWW-Authenticate": "Bearer"},
            )
        grant = status.grant
        if not grant.allows_address(address):
            raise Problem(403, ApiCode.ADDRESS_NOT_ALLOWED, "this key may not be used from this address")
        wait = self._rates.take(status.key_id, grant.requests_per_minute or self._requests_per_minute)
        if wait:
            raise too_many(ApiCode.RATE_LIMITED, "this key asks too often", after_s=wait.total_seconds() + 0.5)
        return Caller(key_id=status.key_id, grant=grant, address=address)


class Door:
    """ASGI middleware: nothing behind it runs, and no body is read, before the caller is known."""

    def __init__(self, app: ASGIApp, *, doorkeeper: Doorkeeper) -> None:
        self._app = app
        self._doorkeeper = doorkeeper

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            request = Request(scope)
            address = request.client.host if request.client else ""
            try:
                scope.setdefault("state", {})["caller"] = await run_in_threadpool(
                    self._doorkeeper.admit, request.headers.get("authorization", ""), address
                )
            except Problem as problem:
                await problem.response()(scope, receive, send)
                return
            except PipelineError as error:
                await of_error(error).response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _needs(scope: Scope) -> Any:
    def check(request: Request) -> Caller:
        caller: Caller = request.state.caller
        if scope not in caller.grant.scopes:
            raise Problem(403, ApiCode.NOT_PERMITTED, f"this key lacks the scope {scope}")
        return caller

    check.scope = scope  # type: ignore[attr-defined]
    return Depends(check)


Submitter = Annotated[Caller, _needs(Scope.SUBMIT)]
Reader = Annotated[Caller, _needs(Scope.READ)]
Actor = Annotated[Caller, _needs(Scope.ACT)]
Administrator = Annotated[Caller, _needs(Scope.ADMIN)]
