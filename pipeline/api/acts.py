"""What callers do to jobs that are there: hold, stop, change, begin again, delete."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Response

from pipeline.api import schemas
from pipeline.api.callers import Actor, Caller
from pipeline.api.documentation import problems
from pipeline.api.problems import ApiCode, Problem
from pipeline.api.schemas import Again, Job
from pipeline.api.service import Served, Service
from pipeline.domain.document import JobId
from pipeline.ports import control

router = APIRouter(tags=["act"], responses=problems(401, 403, 404, 409, 422, 429, 503))


@router.post("/v1/jobs/{job_id}/cancel")
def cancel(service: Served, caller: Actor, job_id: UUID) -> Job:
    """Cancel a job at its next page; what is finished stays."""
    status = service.job(caller, JobId(job_id))
    return _done(service, caller, status.job_id, service.control_of(caller).cancel(_only(status.job_id)))


@router.post("/v1/jobs/{job_id}/pause")
def pause(service: Served, caller: Actor, job_id: UUID) -> Job:
    """Let a job wait from its next page on."""
    return _change(service, caller, job_id, control.Change(paused=True))


@router.post("/v1/jobs/{job_id}/resume")
def resume(service: Served, caller: Actor, job_id: UUID) -> Job:
    """Let a paused job go on."""
    return _change(service, caller, job_id, control.Change(paused=False))


@router.patch("/v1/jobs/{job_id}")
def change(service: Served, caller: Actor, job_id: UUID, wanted: schemas.Change) -> Job:
    """Change the priority, deadline or hours of a job."""
    return _change(
        service,
        caller,
        job_id,
        control.Change(priority=wanted.priority, deadline=wanted.deadline, hours=wanted.hours),
    )


@router.post("/v1/jobs/{job_id}/retry")
def retry(service: Served, caller: Actor, job_id: UUID, again: Annotated[Again, Body()] = Again()) -> Job:  # noqa: B008
    """Begin an ended job again: the pages that failed or were not reached, or all of them."""
    status = service.job(caller, JobId(job_id))
    if not status.state.is_terminal:
        raise Problem(409, ApiCode.NOT_FINISHED, f"job {job_id} is {status.state}: only ended jobs are begun again")
    wanted = control.Again(
        from_the_beginning=again.all_pages, options=schemas.options_given(again.options), password=again.password
    )
    if not service.control_of(caller).retry([status.job_id], wanted):
        raise Problem(409, ApiCode.NOTHING_TO_RETRY, f"all pages of job {job_id} have a result: ask for all_pages")
    return schemas.job(service.job(caller, status.job_id))


@router.delete("/v1/jobs/{job_id}", status_code=204)
def delete(service: Served, caller: Actor, job_id: UUID) -> Response:
    """Delete an ended job: the document, its results and its rows; the trail of what was done stays."""
    status = service.job(caller, JobId(job_id))
    if not service.delete_of(caller)(status.job_id):
        raise Problem(409, ApiCode.NOT_FINISHED, f"job {job_id} is {status.state}: cancel it first")
    return Response(status_code=204)


def _only(job_id: JobId) -> control.Target:
    return control.Target(job_ids=(job_id,))


def _change(service: Service, caller: Caller, job_id: UUID, wanted: control.Change) -> Job:
    status = service.job(caller, JobId(job_id))
    if wanted == control.Change():
        return schemas.job(status)
    changed = service.control_of(caller).change(_only(status.job_id), wanted)
    return _done(service, caller, status.job_id, changed)


def _done(service: Service, caller: Caller, job_id: JobId, concerned: list[JobId]) -> Job:
    status = service.job(caller, job_id)
    if not concerned:
        raise Problem(409, ApiCode.HAS_ENDED, f"job {job_id} has ended: it is {status.state}")
    return schemas.job(status)
