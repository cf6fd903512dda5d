"""Who calls: every request is held until its key is known, allowed from where it comes, and within its rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from cachetools import TTLCache
from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from pipeline.adapters.api_keys import KeyState, KeyStatus, PostgresApiKeys
from pipeline.adapters.rate_limits import RateLimits
from pipeline.api.gathering import Gathered
from pipeline.api.problems import ApiCode, Problem, of_error, too_many
from pipeline.domain.api_keys import KeyGrant, NewKey, Scope, digest, parse_token
from pipeline.domain.errors import PipelineError

_KNOWN_FOR_S = 1.0
"""How long a key that was found good may still be used once it is revoked."""
_MOST_KNOWN = 10_000
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


@dataclass(frozen=True, slots=True)
class _Knock:
    """A key, and where it comes from."""

    key: NewKey
    address: str


class Doorkeeper:
    """Turns the keys of requests into their callers, those that come together with one look at the rows."""

    def __init__(self, keys: PostgresApiKeys, rates: RateLimits, *, requests_per_minute: int) -> None:
        self._keys = keys
        self._rates = rates
        self._requests_per_minute = requests_per_minute
        # By digests: no secret stays here.
        self._known: TTLCache[tuple[str, str], KeyStatus] = TTLCache(_MOST_KNOWN, _KNOWN_FOR_S)
        self._knocks: Gathered[_Knock, Caller | Problem] = Gathered(self._admit)

    async def admit(self, authorization: str, address: str) -> Caller:
        """Return the caller. Raises: Problem, PipelineError."""
        kind, _, token = authorization.partition(" ")
        presented = parse_token(token.strip()) if kind.lower() == "bearer" else None
        if presented is None:
            raise _unknown()
        found = await self._knocks.ask(_Knock(presented, address))
        if isinstance(found, Problem):
            raise found
        return found

    def _admit(self, knocks: Sequence[_Knock]) -> list[Caller | Problem]:
        judged = [_judged(knock, status) for knock, status in zip(knocks, self._looked_up(knocks), strict=True)]
        callers = [found for found in judged if isinstance(found, Caller)]
        rates = [(each.key_id, each.grant.requests_per_minute or self._requests_per_minute) for each in callers]
        waits = iter(self._rates.take(rates) if rates else ())
        return [_slowed(found, next(waits)) if isinstance(found, Caller) else found for found in judged]

    def _looked_up(self, knocks: Sequence[_Knock]) -> list[KeyStatus | None]:
        names = [(knock.key.key_id, digest(knock.key.secret)) for knock in knocks]
        found = {name: status for name in set(names) if (status := self._known.get(name))}
        if asked := {knock.key for name, knock in zip(names, knocks, strict=True) if name not in found}:
            read = {(key.key_id, digest(key.secret)): status for key, status in self._keys.check(asked).items()}
            # Only these: whoever is known already is not to be known for longer because another knocks with him.
            self._known.update(read)
            found |= read
        return [found.get(name) for name in names]


def _unknown() -> Problem:
    return Problem(
        401,
        ApiCode.NOT_AUTHENTICATED,
        "send a key that is valid: Authorization: Bearer mun_...",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _judged(knock: _Knock, status: KeyStatus | None) -> Caller | Problem:
    if status is None or status.state is not KeyState.LIVE:
        return _unknown()
    if not status.grant.allows_address(knock.address):
        return Problem(403, ApiCode.ADDRESS_NOT_ALLOWED, "this key may not be used from this address")
    return Caller(key_id=status.key_id, grant=status.grant, address=knock.address)


def _slowed(caller: Caller, wait: timedelta) -> Caller | Problem:
    if not wait:
        return caller
    return too_many(ApiCode.RATE_LIMITED, "this key asks too often", after_s=wait.total_seconds() + 0.5)


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
                scope.setdefault("state", {})["caller"] = await self._doorkeeper.admit(
                    request.headers.get("authorization", ""), address
                )
            except Problem as problem:
                await problem.response()(scope, receive, send)
                return
            except PipelineError as error:
                await of_error(error).response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _needs(scope: Scope) -> Any:
    async def check(request: Request) -> Caller:
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
