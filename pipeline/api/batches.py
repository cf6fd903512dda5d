"""Batches: many documents under one label, handed in, watched and held together."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from pipeline.api import schemas
from pipeline.api.callers import Actor, Caller, Reader, Submitter
from pipeline.api.documentation import problems
from pipeline.api.jobs import Limit
from pipeline.api.problems import not_found
from pipeline.api.schemas import Batch, BatchList, JobIds, Label, NewBatch
from pipeline.api.service import Served, Service
from pipeline.api.submitting import as_submission, check_callback, check_quota, check_source
from pipeline.ports import control

router = APIRouter(tags=["batches"], responses=problems(401, 403, 422, 429, 503))
InPath = Annotated[Label, Path()]


@router.post("/v1/batches", status_code=201)
def submit(service: Served, caller: Submitter, batch: NewBatch) -> JobIds:
    """Hand in many documents by their URIs, all or none; they join the batch of this label, new or not."""
    check_quota(service, caller)
    for source in batch.sources:
        check_source(service, caller, source)
        check_callback(service, source)
    submissions = [
        as_submission(
            caller,
            source.model_copy(update={"label": batch.label}),
            source_uri=source.source_uri,
            source_name=source.name,
        )
        for source in batch.sources
    ]
    entered = service.submissions_of(caller).enter(submissions)
    return JobIds(jobs=[each.job_id for each in entered])


@router.get("/v1/batches")
def batches(
    service: Served,
    caller: Reader,
    cursor: Annotated[Label | None, Query(description="`next` of the answer before.")] = None,
    limit: Limit = 50,
) -> BatchList:
    """List batches by label, with how far they are."""
    found = service.views.batches(caller.tenant, after=cursor, limit=limit)
    return BatchList(
        batches=[schemas.batch(status) for status in found], next=found[-1].label if len(found) == limit else None
    )


@router.get("/v1/batches/{label}", responses=problems(404))
def batch(service: Served, caller: Reader, label: InPath) -> Batch:
    """Show how far a batch is: its jobs by state, its pages by outcome."""
    return _batch(service, caller, label)


@router.post("/v1/batches/{label}/cancel", responses=problems(404))
def cancel(service: Served, caller: Actor, label: InPath) -> JobIds:
    """Cancel the open jobs of a batch at their next page."""
    _batch(service, caller, label)
    return JobIds(jobs=list(service.control_of(caller).cancel(_all(caller, label))))


@router.post("/v1/batches/{label}/pause", responses=problems(404))
def pause(service: Served, caller: Actor, label: InPath) -> JobIds:
    """Let the jobs of a batch wait, and those that join it later."""
    return _change(service, caller, label, control.Change(paused=True))


@router.post("/v1/batches/{label}/resume", responses=problems(404))
def resume(service: Served, caller: Actor, label: InPath) -> JobIds:
    """Let the jobs of a paused batch go on."""
    return _change(service, caller, label, control.Change(paused=False))


@router.patch("/v1/batches/{label}", responses=problems(404))
def change(service: Served, caller: Actor, label: InPath, wanted: schemas.Change) -> JobIds:
    """Change the priority, deadline or hours of a batch's jobs, and of those that join it later."""
    return _change(
        service,
        caller,
        label,
        control.Change(priority=wanted.priority, deadline=wanted.deadline, hours=wanted.hours),
    )


def _all(caller: Caller, label: str) -> control.Target:
    return control.Target(tenant=caller.tenant, label=label)


def _batch(service: Service, caller: Caller, label: str) -> Batch:
    found = service.views.batches(caller.tenant, after=None, limit=1, label=label)
    if not found:
        raise not_found()
    return schemas.batch(found[0])


def _change(service: Service, caller: Caller, label: str, wanted: control.Change) -> JobIds:
    _batch(service, caller, label)
    return JobIds(jobs=list(service.control_of(caller).change(_all(caller, label), wanted)))
