"""Who calls: every request is held until its key is known, allowed from where it comes, and within its rate."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from cachetools import TTLCache
from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from pipeline.adapters.api_keys import KeyState, KeyStatus, PostgresApiKeys
from pipeline.adapters.rate_limits import Asked, RateLimits, Taken
from pipeline.api.gathering import Gathered, in_thread
from pipeline.api.problems import ApiCode, Problem, of_error, too_many
from pipeline.domain.api_keys import KeyGrant, NewKey, Scope, digest, parse_token
from pipeline.domain.errors import PipelineError

_KNOWN_FOR_S = 1.0
"""How long a key that was found good may still be used once it is revoked."""
_MOST_KNOWN = 10_000
_TENTHS_A_MINUTE = 600
"""Of a key's rate a minute, what it may ask for in a tenth of a second is counted ahead."""
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


@dataclass(slots=True)
class _InHand:
    """What was counted for a key and not asked for yet."""

    requests: int


class Doorkeeper:
    """Turns the keys of requests into their callers; what comes together is looked up and counted at once.

    Of a key that may ask often, some requests are counted ahead, so that most are let in without a look at the counter.
    Lives in one event loop.
    """

    def __init__(self, keys: PostgresApiKeys, rates: RateLimits, *, requests_per_minute: int) -> None:
        self._rates = rates
        self._requests_per_minute = requests_per_minute
        # By digests: no secret stays here.
        self._known: TTLCache[tuple[str, str], KeyStatus] = TTLCache(_MOST_KNOWN, _KNOWN_FOR_S)
        self._in_hand: TTLCache[str, _InHand] = TTLCache(_MOST_KNOWN, _KNOWN_FOR_S)
        self._looks: Gathered[NewKey, KeyStatus | None] = Gathered(in_thread(partial(_looked_up, keys)))
        self._counts: Gathered[tuple[str, int], Taken] = Gathered(in_thread(self._counted))

    async def admit(self, authorization: str, address: str) -> Caller:
        """Return the caller. Raises: Problem, PipelineError."""
        kind, _, token = authorization.partition(" ")
        presented = parse_token(token.strip()) if kind.lower() == "bearer" else None
        status = await self._status(presented) if presented else None
        if status is None or status.state is not KeyState.LIVE:
            raise _unknown()
        if not status.grant.allows_address(address):
            raise Problem(403, ApiCode.ADDRESS_NOT_ALLOWED, "this key may not be used from this address")
        await self._count(status)
        return Caller(key_id=status.key_id, grant=status.grant, address=address)

    async def _status(self, presented: NewKey) -> KeyStatus | None:
        name = (presented.key_id, digest(presented.secret))
        status = self._known.get(name)
        # A key stays known from when it was read, however often it is presented in the meantime.
        if status is None and (status := await self._looks.ask(presented)):
            self._known[name] = status
        return status

    async def _count(self, status: KeyStatus) -> None:
        if in_hand := self._in_hand.get(status.key_id):
            in_hand.requests -= 1
            if not in_hand.requests:
                del self._in_hand[status.key_id]
            return
        taken = await self._counts.ask((status.key_id, status.grant.requests_per_minute or self._requests_per_minute))
        if not taken.requests:
            raise too_many(ApiCode.RATE_LIMITED, "this key asks too often", after_s=taken.wait.total_seconds() + 0.5)
        if ahead := taken.requests - 1:
            self._in_hand.setdefault(status.key_id, _InHand(0)).requests += ahead

    def _counted(self, asked: Sequence[tuple[str, int]]) -> list[Taken]:
        """Count what is asked and some ahead; each of those who ask gets one, and the first of a key what is left."""
        asking = Counter(asked)
        taken = self._rates.take(
            [Asked(*key, requests + key[1] // _TENTHS_A_MINUTE) for key, requests in asking.items()]
        )
        given = {key: _one_each(all_of_it, asking[key]) for key, all_of_it in zip(asking, taken, strict=True)}
        return [next(given[key]) for key in asked]


def _one_each(taken: Taken, asking: int) -> Iterator[Taken]:
    """Give a request to each who asks, as far as there are, and to the first what is over."""
    yield Taken(min(1, taken.requests) + max(0, taken.requests - asking), taken.wait)
    for before in range(1, asking):
        yield Taken(int(before < taken.requests), taken.wait)


def _looked_up(keys: PostgresApiKeys, presented: Sequence[NewKey]) -> list[KeyStatus | None]:
    found = keys.check(set(presented))
    return [found.get(key) for key in presented]


def _unknown() -> Problem:
    return Problem(
        401,
        ApiCode.NOT_AUTHENTICATED,
        "send a key that is valid: Authorization: Bearer mun_...",
        headers={"WWW-Authenticate": "Bearer"},
    )


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
