"""Webhooks: what was sent to whom with what result, and once more."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from pipeline.api import schemas
from pipeline.api.callers import Actor, Caller, Reader
from pipeline.api.documentation import problems
from pipeline.api.jobs import Limit
from pipeline.api.problems import not_found
from pipeline.api.schemas import DeliveryDetail, DeliveryList
from pipeline.api.service import Served, Service
from pipeline.domain.document import JobId
from pipeline.domain.webhooks import DeliveryState
from pipeline.ports.deliveries import DeliveryStatus

router = APIRouter(tags=["webhooks"], responses=problems(401, 403, 422, 429, 503))
States = Annotated[list[DeliveryState] | None, Query(description="Only deliveries in one of these.")]
Cursor = Annotated[UUID | None, Query(description="`next` of the answer before.")]


@router.get("/v1/deliveries")
def deliveries(
    *, service: Served, caller: Reader, state: States = None, cursor: Cursor = None, limit: Limit = 50
) -> DeliveryList:
    """List webhooks, newest first."""
    states = frozenset(state or ())
    found = service.deliveries.latest(limit, tenant=caller.tenant, states=states, before=cursor)
    return _list(found, limit)


@router.get("/v1/jobs/{job_id}/deliveries", responses=problems(404))
def of_job(
    *, service: Served, caller: Reader, job_id: UUID, state: States = None, cursor: Cursor = None, limit: Limit = 50
) -> DeliveryList:
    """List the webhooks of a job, newest first."""
    status = service.job(caller, JobId(job_id))
    found = service.deliveries.latest(limit, job_id=status.job_id, states=frozenset(state or ()), before=cursor)
    return _list(found, limit)


@router.get("/v1/deliveries/{delivery_id}", responses=problems(404))
def delivery(service: Served, caller: Reader, delivery_id: UUID) -> DeliveryDetail:
    """Show a webhook with its latest attempts."""
    return _detail(service, caller, delivery_id)


@router.post("/v1/deliveries/{delivery_id}/replay", responses=problems(404))
def replay(service: Served, caller: Actor, delivery_id: UUID) -> DeliveryDetail:
    """Send a webhook again, with the same id and body, whatever became of it before."""
    if not service.deliveries_of(caller).replay([delivery_id], tenant=caller.tenant):
        raise not_found()
    return _detail(service, caller, delivery_id)


def _list(found: list[DeliveryStatus], limit: int) -> DeliveryList:
    return DeliveryList(
        deliveries=[schemas.delivery(status) for status in found],
        next=str(found[-1].delivery_id) if len(found) == limit else None,
    )


def _detail(service: Service, caller: Caller, delivery_id: UUID) -> DeliveryDetail:
    found = service.deliveries.find(delivery_id, tenant=caller.tenant)
    if found is None:
        raise not_found()
    return schemas.delivery_detail(*found)
