"""Pages that somebody should look at, over all of a tenant's jobs."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from pipeline.api import schemas
from pipeline.api.callers import Reader
from pipeline.api.documentation import problems
from pipeline.api.jobs import Limit
from pipeline.api.schemas import FlagName, Label, Moment, ReviewList
from pipeline.api.service import Served
from pipeline.domain.document import JobId
from pipeline.ports.review import Place, ReviewFilter

router = APIRouter(tags=["watch"])


_PLACE = r"^(0(\.[0-9]{1,17})?|1(\.0)?)_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_[1-9][0-9]{0,8}$"
Cursor = Annotated[str, Query(pattern=_PLACE, description="`next` of the answer before.")]


@router.get("/v1/review", responses=problems(401, 403, 422, 429, 503))
def review(
    *,
    service: Served,
    caller: Reader,
    job: Annotated[UUID | None, Query(description="Only pages of this one.")] = None,
    label: Label | None = None,
    flag: Annotated[FlagName | None, Query(description="Only pages with this one, by its score.")] = None,
    min_score: Annotated[float, Query(ge=0, le=1)] = 0.0,
    since: Annotated[Moment | None, Query(description="Only of jobs submitted then or later.")] = None,
    cursor: Cursor | None = None,
    limit: Limit = 50,
) -> ReviewList:
    """List flagged pages, the worst first."""
    wanted = ReviewFilter(
        tenant=caller.tenant,
        job_id=JobId(job) if job else None,
        label=label,
        flag=flag,
        min_doubt=min_score,
        since=since,
        after=Place.parse(cursor) if cursor else None,
    )
    found = service.review.pages(limit, wanted)
    return ReviewList(
        pages=[schemas.flagged_page(page) for page in found],
        next=str(found[-1].place) if len(found) == limit else None,
    )
