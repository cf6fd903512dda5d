"""The two applications of the API: for callers, and for those who run the system."""

from fastapi import APIRouter, FastAPI

from pipeline.api import (
    acts,
    administration,
    batches,
    deliveries,
    documentation,
    events,
    health,
    jobs,
    problems,
    results,
    resumable,
    review,
    submitting,
    webhook_keys,
)
from pipeline.api.callers import Door
from pipeline.api.frame import Frame
from pipeline.api.service import Service
from pipeline.api.shortcut import Shortcut

CALLERS = (
    submitting.router,
    resumable.router,
    jobs.router,
    events.router,
    review.router,
    results.router,
    acts.router,
    batches.router,
    deliveries.router,
    webhook_keys.router,
    health.router,
)
ADMINISTRATORS = (administration.router, health.router)


def for_callers(service: Service) -> FastAPI:
    """Return what listens on the port that callers reach."""
    return _application("Muniment", "Documents in, checked pages out.", service, CALLERS)


def for_administrators(service: Service) -> FastAPI:
    """Return what listens on the admin port."""
    return _application("Muniment administration", "The system as a whole.", service, ADMINISTRATORS)


def _application(title: str, description: str, service: Service, routers: tuple[APIRouter, ...]) -> FastAPI:
    # No pages of documentation: they would load scripts from elsewhere.
    app = FastAPI(title=title, description=description, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service
    for router in routers:
        app.include_router(router)
    problems.register(app)
    documentation.document(app)
    app.add_middleware(Shortcut, service=service)
    app.add_middleware(Door, doorkeeper=service.doorkeeper)
    app.add_middleware(Frame, metrics=service.metrics, max_request_bytes=service.settings.api.max_request_bytes)
    return app
