"""What holds for every request: a bound for its body, headers for its answer, a line in the log, a count."""

import re
import time

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.api.metrics import Metrics
from pipeline.api.problems import ApiCode, Problem

log = structlog.get_logger()
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
_PART = re.compile(r"/v1/uploads/[^/]+/parts/[^/]+")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Frame:
    """ASGI middleware, around everything else."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, max_request_bytes: int) -> None:
        self._app = app
        self._metrics = metrics
        self._max_request_bytes = max_request_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 499

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._bounded(scope, receive, answer)
        except Exception:
            status = 500
            raise
        finally:
            self._note(scope, status, time.perf_counter() - begun)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        bound = None if _takes_a_document(scope) else self._max_request_bytes
        length = Headers(scope=scope).get("content-length", "0")
        if bound is not None and length.isdigit() and int(length) > bound:
            too_large = Problem(413, ApiCode.REQUEST_TOO_LARGE, f"the body has more than {bound} bytes")
            await too_large.response()(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            size = len(message.get("body", b""))
            self._metrics.received.inc(size)
            received += size
            if bound is not None and received > bound:
                raise HTTPException(413, f"the body has more than {bound} bytes")
            return message

        await self._app(scope, counted, send)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        # The route, not the path: that may hold what people call their batches.
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.answered(method, route, status, seconds)
        caller = scope.get("state", {}).get("caller")
        level = "debug" if method == "GET" and status < 400 else "info"
        getattr(log, level)(
            "answered",
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            key=caller.key_id if caller else None,
        )


def _takes_a_document(scope: Scope) -> bool:
    """Whether the body goes to the store, which has a bound of its own."""
    if _PART.fullmatch(scope["path"]):
        return True
    is_json = Headers(scope=scope).get("content-type", "").lower().startswith("application/json")
    return scope["path"] == "/v1/jobs" and not is_json
