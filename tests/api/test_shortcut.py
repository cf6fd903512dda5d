"""How far a job is, told before the routes."""

import asyncio
import contextlib
import json
import socket

import pytest

from pipeline.api.callers import Caller
from pipeline.api.metrics import Metrics
from pipeline.api.service import Service
from pipeline.api.shortcut import Shortcut
from pipeline.domain.api_keys import KeyGrant, Scope
from pipeline.settings import Settings


class Routes:
    """What lies behind: it notes what is left to it."""

    def __init__(self):
        self.asked = []

    async def __call__(self, scope, receive, send):
        self.asked.append((scope["method"], scope["path"]))


async def through(service, method, path, *scopes):
    """What is answered to somebody with these scopes, and what is left to the routes."""
    grant = KeyGrant(tenant="museum", name="of a test", scopes=frozenset(scopes))
    state = {"caller": Caller(key_id="k", grant=grant, address="127.0.0.1")}
    routes, answer = Routes(), []

    async def send(message):
        answer.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "state": state}
    await Shortcut(routes, service=service)(scope, None, send)
    return answer, routes.asked


@pytest.fixture
def without_database(shared_settings):
    """What serves a system whose database refuses connections."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        database = {"url": f"postgresql+psycopg://nobody@127.0.0.1:{deaf.getsockname()[1]}/none"}
        settings = Settings.model_validate(shared_settings.model_dump() | {"database": database})
        service = Service(settings, Metrics())
        yield service
        service.close()


JOB = "/v1/jobs/24cba66c-2d36-4f3a-8c88-bd6971a2f587"


@pytest.mark.parametrize(
    ("method", "path", "scopes"),
    [
        ("GET", JOB, {Scope.SUBMIT, Scope.ACT, Scope.ADMIN}),
        ("DELETE", JOB, set(Scope)),
        ("HEAD", JOB, set(Scope)),
        ("GET", f"{JOB}/pages", set(Scope)),
        ("GET", f"{JOB}/", set(Scope)),
        ("GET", "/v1/jobs/1", set(Scope)),
        ("GET", "/v1/jobs", set(Scope)),
        ("GET", f"/elsewhere{JOB}", set(Scope)),
    ],
)
def test_all_but_a_job_for_who_may_read_is_left_to_the_routes(without_database, method, path, scopes):
    assert asyncio.run(through(without_database, method, path, *scopes)) == ([], [(method, path)])


def test_a_database_that_is_away_is_an_answer_and_not_asked_again(without_database):
    (start, body), left = asyncio.run(through(without_database, "GET", JOB, Scope.READ))
    assert left == []
    assert (start["status"], json.loads(body["body"])["code"]) == (503, "database_unavailable")
    assert b"retry-after" in dict(start["headers"])


def test_a_job_that_is_there_never_reaches_the_routes(shared_settings, api, tenant):
    job_id = api.rows.submitted(tenant="museum")
    service = Service(shared_settings, Metrics())

    async def both():
        async with contextlib.aclosing(service.reader):
            there = await through(service, "GET", f"/v1/jobs/{job_id}", Scope.READ)
            return there, await through(service, "GET", JOB, Scope.READ)

    try:
        ((start, body), left), missing = asyncio.run(both())
    finally:
        service.close()
    assert (start["status"], json.loads(body["body"])["id"], left) == (200, str(job_id), [])
    assert missing == ([], [("GET", JOB)])
