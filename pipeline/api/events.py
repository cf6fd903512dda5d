"""`GET /v1/jobs/{id}/events`: what happens to a job, as it happens (Server-Sent Events, WHATWG HTML, section 9.2)."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse
from pydantic import StringConstraints

from pipeline.api import schemas
from pipeline.api.callers import Reader
from pipeline.api.documentation import answers
from pipeline.api.problems import ApiCode, not_found, too_many
from pipeline.api.service import Served, Service
from pipeline.domain.document import JobId
from pipeline.domain.states import JobState
from pipeline.ports.submissions import EventRow

router = APIRouter(tags=["watch"])
_SILENCE_S = 15.0
"""What passes proxies and dead connections must be heard of from time to time."""
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LAST = frozenset({"job.deleted"} | {f"job.{state}" for state in JobState if state.is_terminal})
EventId = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,18}$")]


@router.get(
    "/v1/jobs/{job_id}/events",
    response_class=StreamingResponse,
    responses=answers(
        {
            200: {"description": "Events, until the job has ended.", "content": {"text/event-stream": {}}},
            204: {"description": "The job has ended, and nothing follows on that event."},
        },
        *(401, 403, 404, 422, 429, 503),
    ),
)
async def events(
    service: Served, caller: Reader, job_id: UUID, last_event_id: Annotated[EventId, Header()] = "0"
) -> Response:
    """Stream what happens to a job from its beginning, or behind `Last-Event-ID`.

    An event `move` has an id, and is a step on the job's trail; none is left out. An event `progress` has none, and
    says how far the job is now. The stream ends when the job has ended.
    """
    status = await service.found.ask((caller.tenant, JobId(job_id)))
    if status is None:
        raise not_found()
    after = int(last_event_id)
    if status.state.is_terminal and not await _moves(service, status.job_id, after):
        return Response(status_code=204)
    if service.feed.watchers >= service.settings.api.max_streams:
        raise too_many(ApiCode.BUSY, "as many streams as this server has are open", after_s=5)
    return StreamingResponse(_stream(service, status.job_id, after), media_type="text/event-stream", headers=_HEADERS)


async def _stream(service: Service, job_id: JobId, after: int) -> AsyncIterator[str]:
    with service.metrics.streams.track_inprogress(), service.feed.watch(job_id) as watch:
        seen = None
        while not service.feed.is_closed:
            is_over = False
            while watch.moved:
                watch.moved = False
                for move in await _moves(service, job_id, after):
                    after, watch.moved, is_over = move.event_id, True, move.kind in _LAST
                    yield _event("move", _move(move), event_id=move.event_id)
            if is_over:
                # Counted here: the end is told before the feed counts again.
                watch.progress = await service.counted.ask(job_id)
            if watch.progress is not None and watch.progress != seen:
                seen = watch.progress
                yield _event("progress", schemas.progress(seen))
            if is_over or (seen is not None and seen.state.is_terminal and not watch.moved):
                return
            if not await watch.wait(_SILENCE_S):
                yield ": still here\n\n"


async def _moves(service: Service, job_id: JobId, after: int) -> list[EventRow]:
    return await service.moves.ask((job_id, after))


def _move(move: EventRow) -> dict[str, Any]:
    return {"at": move.at.isoformat(), "kind": move.kind, "detail": dict(move.detail)}


def _event(name: str, data: dict[str, Any], *, event_id: int | None = None) -> str:
    numbered = f"id: {event_id}\n" if event_id is not None else ""
    return f"{numbered}event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
