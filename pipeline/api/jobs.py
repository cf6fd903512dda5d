"""Jobs and their pages, for those who watch."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response

from pipeline.api import schemas
from pipeline.api.callers import Reader
from pipeline.api.documentation import problems
from pipeline.api.problems import not_found
from pipeline.api.schemas import JobDetail, JobList, Label, Moment, PageList
from pipeline.api.service import Served
from pipeline.domain.document import JobId
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import JobState
from pipeline.ports.submissions import JobFilter

router = APIRouter(tags=["watch"])
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/v1/jobs", responses=problems(401, 403, 422, 429, 503))
def jobs(
    *,
    service: Served,
    caller: Reader,
    state: Annotated[list[JobState] | None, Query(description="Only jobs in one of these.")] = None,
    label: Label | None = None,
    created_from: Moment | None = None,
    created_before: Moment | None = None,
    cursor: Annotated[UUID | None, Query(description="`next` of the answer before.")] = None,
    limit: Limit = 50,
) -> JobList:
    """List jobs, newest first."""
    wanted = JobFilter(
        tenant=caller.tenant,
        label=label,
        states=frozenset(state or ()),
        created_from=created_from,
        created_before=created_before,
        before=JobId(cursor) if cursor else None,
    )
    found = service.submissions.latest(limit, wanted)
    return JobList(
        jobs=[schemas.job(status) for status in found],
        next=str(found[-1].job_id) if len(found) == limit else None,
    )


@router.get("/v1/jobs/{job_id}", response_model=JobDetail, responses=problems(401, 403, 404, 422, 429, 503))
async def job(service: Served, caller: Reader, job_id: UUID) -> Response:
    """Show a job: its state, its pages, and what it waits for."""
    found = await service.details.ask((caller.tenant, JobId(job_id)))
    if found is None:
        raise not_found()
    return Response(found, media_type="application/json")


@router.get("/v1/jobs/{job_id}/pages", responses=problems(401, 403, 404, 422, 429, 503))
def pages(
    *,
    service: Served,
    caller: Reader,
    job_id: UUID,
    outcome: Annotated[list[PageOutcome] | None, Query(description="Only pages that ended as one of these.")] = None,
    cursor: Annotated[int, Query(ge=0, le=2**31 - 1, description="`next` of the answer before.")] = 0,
    limit: Limit = 200,
) -> PageList:
    """List a job's pages in order, as the ledger has them."""
    status = service.job(caller, JobId(job_id))
    found = service.views.pages(status.job_id, after=cursor, limit=limit, outcomes=frozenset(outcome or ()))
    return PageList(pages=[schemas.page(row) for row in found], next=found[-1].number if len(found) == limit else None)
