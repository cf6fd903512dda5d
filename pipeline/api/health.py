"""Whether the process lives, and whether it can do its work; asked without a key, and never of a device."""

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from pipeline.api.documentation import problems
from pipeline.api.service import Served

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses=problems(503))
def readyz(service: Served) -> Response:
    """Say whether the database and the store answer."""
    service.keys.check_table()
    service.objects.check()
    return JSONResponse({"status": "ok"})
