"""Who may do what: each route with no key, with each scope alone, and with everything but for another tenant."""

import asyncio
import time
from datetime import timedelta

import pytest

from pipeline.adapters.rate_limits import RateLimits
from pipeline.api.callers import Caller, Doorkeeper
from pipeline.api.problems import Problem
from pipeline.domain.api_keys import Scope, new_key
from tests.api.conftest import ALL
from tests.rows import unknown
from tests.waiting import eventually

SUBMIT, READ, ACT, ADMIN = Scope.SUBMIT, Scope.READ, Scope.ACT, Scope.ADMIN
FOR_CALLERS = {
    "POST /v1/jobs": SUBMIT,
    "GET /v1/jobs": READ,
    "GET /v1/jobs/{job_id}": READ,
    "GET /v1/jobs/{job_id}/pages": READ,
    "GET /v1/jobs/{job_id}/pages/{number}": READ,
    "GET /v1/jobs/{job_id}/result": READ,
    "GET /v1/jobs/{job_id}/events": READ,
    "GET /v1/review": READ,
    "PATCH /v1/jobs/{job_id}": ACT,
    "DELETE /v1/jobs/{job_id}": ACT,
    "POST /v1/jobs/{job_id}/cancel": ACT,
    "POST /v1/jobs/{job_id}/pause": ACT,
    "POST /v1/jobs/{job_id}/resume": ACT,
    "POST /v1/jobs/{job_id}/retry": ACT,
    "POST /v1/uploads": SUBMIT,
    "GET /v1/uploads/{upload_id}": SUBMIT,
    "PUT /v1/uploads/{upload_id}/parts/{number}": SUBMIT,
    "POST /v1/uploads/{upload_id}/complete": SUBMIT,
    "DELETE /v1/uploads/{upload_id}": SUBMIT,
    "GET /v1/jobs/{job_id}/deliveries": READ,
    "GET /v1/deliveries": READ,
    "GET /v1/deliveries/{delivery_id}": READ,
    "POST /v1/deliveries/{delivery_id}/replay": ACT,
    "GET /v1/webhook-keys": ACT,
    "POST /v1/webhook-keys": ACT,
    "DELETE /v1/webhook-keys/{key_id}": ACT,
    "POST /v1/batches": SUBMIT,
    "GET /v1/batches": READ,
    "GET /v1/batches/{label}": READ,
    "PATCH /v1/batches/{label}": ACT,
    "POST /v1/batches/{label}/cancel": ACT,
    "POST /v1/batches/{label}/pause": ACT,
    "POST /v1/batches/{label}/resume": ACT,
}
FOR_ADMINISTRATORS = {
    "GET /v1/devices": ADMIN,
    "POST /v1/devices/{name}/drain": ADMIN,
    "POST /v1/devices/{name}/resume": ADMIN,
    "GET /v1/engines": ADMIN,
    "GET /v1/queues": ADMIN,
    "GET /v1/usage": ADMIN,
}
OPEN = {"GET /healthz", "GET /readyz"}
BODIES = {
    "POST /v1/jobs": {"source_uri": "s3://archive/1.pdf"},
    "POST /v1/uploads": {"size_bytes": 1},
    "POST /v1/batches": {"label": "box-18", "sources": [{"source_uri": "s3://archive/1.pdf"}]},
    "PATCH /v1/jobs/{job_id}": {"priority": 1},
    "PATCH /v1/batches/{label}": {"priority": 1},
}
PORTS = [pytest.param(FOR_CALLERS, False, id="callers"), pytest.param(FOR_ADMINISTRATORS, True, id="administrators")]


def ask(caller, route, **values):
    method, path = route.split()
    there = {
        "job_id": unknown(),
        "upload_id": unknown(),
        "delivery_id": unknown(),
        "number": 1,
        "label": "box-17",
        "name": "elsewhere/cpu:0",
        "key_id": "0" * 8,
    } | values
    return caller(method, path.format(**there), json=BODIES.get(route))


@pytest.mark.parametrize(("routes", "admin_port"), PORTS)
def test_every_route_is_in_the_matrix(api, routes, admin_port):
    described = api.with_token(None, admin_port=admin_port)("GET", "/openapi.json").json["paths"]
    there = {f"{method.upper()} {path}" for path, operations in described.items() for method in operations}
    assert there == set(routes) | OPEN
    keyed = {
        f"{method.upper()} {path}"
        for path, operations in described.items()
        for method, operation in operations.items()
        if operation.get("security") == [{"key": []}]
    }
    assert keyed == set(routes)


@pytest.mark.parametrize(("routes", "admin_port"), PORTS)
@pytest.mark.parametrize("token", [None, "", "mun_0", "mun_" + "0" * 16 + "_" + "0" * 64], ids=repr)
def test_no_route_answers_without_a_key(api, routes, admin_port, token):
    nobody = api.with_token(token, admin_port=admin_port)
    answers = {route: ask(nobody, route) for route in routes}
    assert {(answer.status, answer.code) for answer in answers.values()} == {(401, "not_authenticated")}
    assert {answer.headers["WWW-Authenticate"] for answer in answers.values()} == {"Bearer"}


@pytest.mark.parametrize(("routes", "admin_port"), PORTS)
@pytest.mark.parametrize("scope", Scope)
def test_a_scope_opens_its_own_routes_and_no_other(api, tenant, routes, admin_port, scope):
    caller = api.caller(scope, tenant=tenant, admin_port=admin_port)
    refused = {
        route for route in routes if (answer := ask(caller, route)).status == 403 and is_lack(answer, routes[route])
    }
    assert refused == {route for route, needed in routes.items() if needed is not scope}


def is_lack(answer, scope):
    return answer.code == "not_permitted" and answer.json["detail"] == f"this key lacks the scope {scope}"


@pytest.mark.parametrize("route", [route for route in FOR_CALLERS if "{" in route])
def test_what_is_another_tenant_s_is_as_if_it_were_not_there(api, library, tenant, route):
    job_id = api.ended(tenant=tenant, label=f"box-{tenant}", callback_url="https://museum.test/")
    [delivery] = api.rows.sql("SELECT id FROM delivery WHERE job_id = :id", id=job_id)
    upload_id = api.caller(tenant=tenant)("POST", "/v1/uploads", json={"size_bytes": 1}).json["id"]
    key_id = api.caller(tenant=tenant)("POST", "/v1/webhook-keys").json["id"]
    there = {
        "job_id": job_id,
        "upload_id": upload_id,
        "delivery_id": delivery.id,
        "label": f"box-{tenant}",
        "key_id": key_id,
    }
    theirs = ask(library, route, **there)
    nobodys = ask(library, route, label="box-of-nobody")
    assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body)
    assert theirs.status == 404
    assert api.rows.state("job", job_id) == "succeeded"


def test_the_scope_admin_opens_nothing_of_another_tenant(api, tenant):
    job_id = api.rows.submitted(tenant=tenant)
    assert api.caller(*ALL, tenant=f"of-{tenant}")("GET", f"/v1/jobs/{job_id}").status == 404


def test_a_key_that_is_revoked_or_has_expired_opens_nothing(api, tenant):
    expired = api.with_token(api.key(tenant=tenant, lives=timedelta(microseconds=1)).token)
    key = api.key(tenant=tenant)
    revoked = api.with_token(key.token)
    assert revoked("GET", "/v1/jobs").status == 200
    assert api.keys.revoke([key.key_id]) == [key.key_id]
    # A key that was good a second ago need not be looked up again.
    eventually(lambda: revoked("GET", "/v1/jobs").status == 401, within=10)
    assert expired("GET", "/v1/jobs").status == 401


def test_a_revoked_key_lives_no_longer_because_others_knock_with_it(api, tenant):
    mine, stranger = api.key(tenant=tenant), new_key()

    async def run():
        doorkeeper = Doorkeeper(api.keys, RateLimits(api.settings.broker), requests_per_minute=100_000)
        await doorkeeper.admit(f"Bearer {mine.token}", "127.0.0.1")
        api.keys.revoke([mine.key_id])
        async with asyncio.timeout(10):
            while True:
                knocks = [doorkeeper.admit(f"Bearer {key.token}", "127.0.0.1") for key in (stranger, mine)]
                if all(isinstance(found, Problem) for found in await asyncio.gather(*knocks, return_exceptions=True)):
                    return

    asyncio.run(run())


def test_a_key_of_another_id_with_a_known_secret_opens_nothing(api, tenant):
    first, second = api.key(tenant=tenant), api.key(tenant=tenant)
    assert api.with_token(f"mun_{first.key_id}_{second.secret}")("GET", "/v1/jobs").status == 401


def test_a_key_is_used_from_its_networks_only(api, tenant):
    here = api.caller(tenant=tenant, networks=("10.0.0.0/8", "127.0.0.0/8"))
    elsewhere = api.caller(tenant=tenant, networks=("10.0.0.0/8", "::1/128"))
    assert here("GET", "/v1/jobs").status == 200
    refused = elsewhere("GET", "/v1/jobs")
    assert (refused.status, refused.code) == (403, "address_not_allowed")


def test_nobody_says_of_himself_where_he_comes_from(api, tenant):
    elsewhere = api.caller(tenant=tenant, networks=("10.0.0.0/8",))
    assert elsewhere("GET", "/v1/jobs", headers={"X-Forwarded-For": "10.0.0.1"}).status == 403


def test_a_rotated_key_opens_the_same_and_the_old_one_a_while_longer(api, tenant):
    old = api.key(READ, tenant=tenant, networks=("127.0.0.0/8",), requests_per_minute=50)
    new = api.keys.rotate(old.key_id, overlap=timedelta(hours=1))
    assert [api.with_token(key.token)("GET", "/v1/jobs").status for key in (old, new)] == [200, 200]
    assert api.with_token(new.token)("POST", "/v1/jobs").status == 403
    statuses = {status.key_id: status for status in api.keys.all(tenant)}
    assert statuses[new.key_id].grant == statuses[old.key_id].grant
    assert statuses[new.key_id].expires_at is None
    assert statuses[old.key_id].expires_at is not None
    after = api.keys.rotate(new.key_id, overlap=timedelta(0))
    assert api.with_token(after.token)("GET", "/v1/jobs").status == 200
    eventually(lambda: api.with_token(new.token)("GET", "/v1/jobs").status == 401, within=10)


def test_a_key_that_asks_too_often_is_told_when_to_come_again_and_by_every_server(api, another_api, tenant):
    other = another_api.start()
    key = api.key(tenant=tenant, requests_per_minute=3)
    here, there = api.with_token(key.token), other.with_token(key.token)
    assert [caller("GET", "/v1/jobs").status for caller in (here, there, here)] == [200, 200, 200]
    refused = there("GET", "/v1/jobs")
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert 1 <= int(refused.headers["Retry-After"]) <= 21
    assert api.caller(tenant=tenant)("GET", "/v1/jobs").status == 200


@pytest.mark.parametrize(("per_minute", "asking"), [(3, 3), (3, 5), (600, 3), (600, 650), (1200, 1250), (6000, 300)])
def test_a_rate_lets_in_as_many_as_it_allows_however_many_are_counted_ahead(api, tenant, per_minute, asking):
    key = api.key(tenant=tenant, requests_per_minute=per_minute)
    rates = RateLimits(api.settings.broker)
    doorkeepers = [Doorkeeper(api.keys, rates, requests_per_minute=100_000) for _ in range(2)]

    async def run():
        knocks = [doorkeepers[n % 2].admit(f"Bearer {key.token}", "127.0.0.1") for n in range(asking)]
        return await asyncio.gather(*knocks, return_exceptions=True)

    begun = time.monotonic()
    answers = asyncio.run(run())
    comes_back = 1 + (time.monotonic() - begun) * per_minute / 60
    let_in = sum(isinstance(answer, Caller) for answer in answers)
    assert {answer.status for answer in answers if not isinstance(answer, Caller)} <= {429}
    # Two doorkeepers can't give away what each of them has in hand.
    most_in_hand = 2 * (asking // 500 + 1) * (per_minute // 600)
    assert min(asking, per_minute - most_in_hand) <= let_in <= min(asking, per_minute + comes_back)


def test_of_a_key_that_may_ask_often_most_are_let_in_without_a_look_at_the_counter(api, tenant):
    key, looks = api.key(tenant=tenant, requests_per_minute=60_000), []

    class Watched(RateLimits):
        def take(self, asked):
            looks.append(asked)
            return super().take(asked)

    async def run():
        doorkeeper = Doorkeeper(api.keys, Watched(api.settings.broker), requests_per_minute=1)
        for _ in range(50):
            await doorkeeper.admit(f"Bearer {key.token}", "127.0.0.1")

    asyncio.run(run())
    assert 1 <= len(looks) < 25


def test_secrets_are_kept_by_their_digest_only(api, tenant):
    key = api.key(tenant=tenant)
    [row] = api.rows.sql("SELECT row_to_json(api_key)::text AS all FROM api_key WHERE id = :id", id=key.key_id)
    assert key.secret not in row.all
    assert key.secret not in api.log()
    assert key.secret not in repr(key)
