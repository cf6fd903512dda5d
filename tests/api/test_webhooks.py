"""Webhooks, for those who ask for them, look after them and receive them."""

import os
import re
import socket
import subprocess
import sys
from datetime import timedelta
from functools import partial

import pytest

from pipeline.adapters.webhook_keys import PostgresWebhookKeys
from pipeline.domain.states import JobState
from tests.steps.test_send_webhooks import send_one
from tests.system import ROOT
from tests.waiting import eventually
from workers.wiring import Wiring

PDF = b"%PDF-1.7\n" + b"x" * 100
URL = "https://museum.test/hooks?of=us"


@pytest.fixture
def send(api):
    """Send what is due, to this host as well; return how much that was."""
    allowed = {"http": True, "ports": (), "allowed_networks": ("127.0.0.1/32",)}
    webhooks = api.settings.webhooks.model_copy(update=allowed)
    wiring = Wiring(api.settings.model_copy(update={"webhooks": webhooks}), actor="test")
    yield partial(send_one, wiring.send_webhooks)
    wiring.deliveries._engine.dispose()


def dead(api, tenant, **more):
    """Insert a job of which a webhook was given up, and return the ids of both."""
    job_id = api.ended(tenant=tenant, callback_url=URL, **more)
    [delivery] = api.rows.sql(
        "UPDATE delivery SET state = 'dead', next_at = NULL, ended_at = now(), attempt = 16, tries = 16,"
        " last_error = 'timed_out' WHERE job_id = :id RETURNING id",
        id=job_id,
    )
    api.rows.sql("INSERT INTO delivery_attempt VALUES (:id, 16, now(), 10000, NULL, 'timed_out')", id=delivery.id)
    return job_id, delivery.id


def test_a_callback_is_asked_for_in_every_way_of_handing_in(museum):
    events = ["job.running", "job.succeeded"]
    query = f"callback_url={URL}&callback_event=job.running&callback_event=job.succeeded"
    form = [("callback_url", URL), *(("callback_event", event) for event in events), ("file", ("1.pdf", PDF))]
    source = {"source_uri": "s3://archive/1.pdf", "callback_url": URL, "callback_events": events}
    answers = [
        museum("POST", f"/v1/jobs?{query}", body=PDF),
        museum("POST", "/v1/jobs", fields=form),
        museum("POST", "/v1/jobs", json=source),
    ]
    assert [(answer.json["callback_url"], answer.json["callback_events"]) for answer in answers] == [(URL, events)] * 3
    batch = museum("POST", "/v1/batches", json={"label": "box-17", "sources": [source]})
    assert museum("GET", f"/v1/jobs/{batch.json['jobs'][0]}").json["callback_url"] == URL


@pytest.mark.parametrize(
    ("url", "status", "code"),
    [
        ("http://museum.test/", 403, "callback_not_allowed"),
        ("https://museum.test:22/", 403, "callback_not_allowed"),
        ("https://user:secret@museum.test/", 422, "invalid_request"),
        ("file:///etc/passwd", 422, "invalid_request"),
        ("https://", 422, "invalid_request"),
    ],
)
def test_callbacks_that_would_never_be_told_are_refused_at_once_and_nothing_is_kept(
    *, api, museum, tenant, url, status, code
):
    sources = {"source_uri": "s3://archive/1.pdf", "callback_url": url}
    for answer in (
        museum("POST", f"/v1/jobs?callback_url={url}", body=PDF),
        museum("POST", "/v1/jobs", fields=[("file", ("1.pdf", PDF)), ("callback_url", url)]),
        museum("POST", "/v1/jobs", json=sources),
        museum("POST", "/v1/batches", json={"label": "b", "sources": [sources]}),
    ):
        assert (answer.status, answer.code, b"secret" in answer.body) == (status, code, False)
    assert api.rows.sql("SELECT id FROM job WHERE tenant = :tenant", tenant=tenant) == []


def test_a_document_in_parts_is_held_to_the_same(museum):
    begun = museum("POST", "/v1/uploads", json={"size_bytes": len(PDF)}).json
    assert museum("PUT", f"/v1/uploads/{begun['id']}/parts/1", body=PDF).status == 200
    wrong = museum("POST", f"/v1/uploads/{begun['id']}/complete", json={"callback_url": "https://museum.test:22/"})
    assert (wrong.status, wrong.code) == (403, "callback_not_allowed")
    job = museum("POST", f"/v1/uploads/{begun['id']}/complete", json={"callback_url": URL})
    assert (job.status, job.json["callback_url"]) == (201, URL)


def test_events_that_there_are_not_are_refused(museum):
    assert museum("POST", f"/v1/jobs?callback_url={URL}&callback_event=job.lost", body=PDF).status == 422


def test_deliveries_are_listed_shown_and_replayed_and_the_trail_says_by_whom(api, museum, tenant):
    job_id, delivery_id = dead(api, tenant)
    other = api.ended(tenant=tenant, callback_url=URL)
    listed = museum("GET", "/v1/deliveries").json["deliveries"]
    assert [delivery["job_id"] for delivery in listed] == [str(other), str(job_id)]
    assert museum("GET", "/v1/deliveries?state=dead").json["deliveries"] == listed[1:]
    assert museum("GET", f"/v1/jobs/{job_id}/deliveries").json["deliveries"] == listed[1:]
    first = museum("GET", "/v1/deliveries?limit=1").json
    assert museum("GET", f"/v1/deliveries?cursor={first['next']}").json["deliveries"] == listed[1:]
    shown = museum("GET", f"/v1/deliveries/{delivery_id}").json
    assert (shown["state"], shown["event"], shown["url"]) == ("dead", "job.succeeded", URL)
    assert [(entry["number"], entry["error"]) for entry in shown["log"]] == [(16, "timed_out")]

    replayed = museum("POST", f"/v1/deliveries/{delivery_id}/replay").json
    assert (replayed["state"], replayed["ended_at"], replayed["attempts"]) == ("due", None, 16)
    key_id = museum.token.split("_")[1]
    assert api.actors(job_id, "delivery.replayed") == [f"key {key_id} 127.0.0.1"]


def test_a_tenant_sees_makes_and_revokes_what_its_webhooks_are_signed_with(api, museum, library, tenant):
    def live(caller):
        return [key["id"] for key in caller("GET", "/v1/webhook-keys").json["keys"]]

    assert live(museum) == []
    first = museum("POST", "/v1/webhook-keys").json
    assert first["secret"].startswith("whsec_")
    assert first["expires_at"] is None
    second = museum("POST", "/v1/webhook-keys", json={"overlap_hours": 1}).json
    newest, older = museum("GET", "/v1/webhook-keys").json["keys"]
    assert (newest, older["id"], older["secret"]) == (second, first["id"], first["secret"])
    assert older["expires_at"] is not None
    assert (live(library), library("DELETE", f"/v1/webhook-keys/{first['id']}").status) == ([], 404)
    assert museum("DELETE", f"/v1/webhook-keys/{first['id']}").status == 204
    assert museum("DELETE", f"/v1/webhook-keys/{first['id']}").status == 404
    assert live(museum) == [second["id"]]
    by = f"key {museum.token.split('_')[1]} 127.0.0.1"
    trail = api.rows.sql("SELECT kind, actor FROM event WHERE detail ->> 'key' = :key ORDER BY id", key=first["id"])
    assert [tuple(row) for row in trail] == [(f"webhook_key.{done}", by) for done in ("created", *["changed"] * 2)]


def test_no_more_than_five_keys_of_a_tenant_sign_at_once_and_few_are_kept(api, museum, tenant):
    made = [museum("POST", "/v1/webhook-keys").json["id"] for _ in range(22)]
    signing = [key["id"] for key in museum("GET", "/v1/webhook-keys").json["keys"]]
    assert signing == made[:-6:-1]
    assert [status.key.key_id for status in PostgresWebhookKeys(api.rows.engine).all(tenant)] == made[2:]


def test_the_command_line_does_the_same(api, tenant):
    job_id, delivery_id = dead(api, tenant)

    def muniment(*arguments):
        command = [sys.executable, "-m", "pipeline.cli", "webhooks", *arguments]
        return subprocess.run(command, env=api.environment, cwd=ROOT, capture_output=True, text=True, check=False)

    assert str(delivery_id) in muniment("list", "--job", str(job_id), "--state", "dead").stdout
    assert "timed_out" in muniment("show", str(delivery_id)).stdout
    assert muniment("replay", str(delivery_id)).stdout == f"{delivery_id}: due now\n"
    assert api.rows.state("delivery", delivery_id) == "due"
    key_id, secret = muniment("rotate", "--tenant", tenant).stdout.split()
    assert key_id in muniment("keys", "--tenant", tenant).stdout
    assert secret not in muniment("keys", "--tenant", tenant).stdout
    assert secret in muniment("keys", "--tenant", tenant, "--secrets").stdout
    assert muniment("revoke", key_id).stdout == f"{key_id} revoked\n"
    assert muniment("revoke", key_id).returncode == 1
    trail = api.rows.sql("SELECT kind, actor FROM event WHERE detail ->> 'key' = :key ORDER BY id", key=key_id)
    assert [tuple(row) for row in trail] == [
        ("webhook_key.created", "muniment cli"),
        ("webhook_key.changed", "muniment cli"),
    ]


@pytest.fixture
def receiver(tmp_path):
    """Run the receiver that docs/api.md shows, with a secret, and return its port and what it prints."""
    shown = re.search(r"<!-- receiver[^>]*-->\n```python\n(.*?)```", (ROOT / "docs/api.md").read_text(), re.DOTALL)
    started = []

    def start(secret):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        program = tmp_path / "receiver.py"
        program.write_text(shown[1].replace("9000", str(port)))
        output = tmp_path / "received"
        with output.open("w") as printed:
            process = subprocess.Popen(
                [sys.executable, program], env={**os.environ, "WEBHOOK_SECRET": secret}, stdout=printed
            )
        started.append(process)
        eventually(lambda: accepts(port))
        return port, output

    yield start
    for process in started:
        process.kill()
        process.wait()


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_receiver_of_the_docs_knows_what_is_ours_also_while_keys_change(api, tenant, receiver, send):
    keys = PostgresWebhookKeys(api.rows.engine)
    port, output = receiver(keys.rotate(tenant, overlap=timedelta(0)).key.secret)

    def told():
        job_id = api.ended(tenant=tenant, callback_url=f"http://127.0.0.1:{port}/")
        [delivery] = api.rows.sql("SELECT id FROM delivery WHERE job_id = :id", id=job_id)
        while send():
            pass
        [row] = api.rows.sql("SELECT state, last_status FROM delivery WHERE id = :id", id=delivery.id)
        return tuple(row), f"{delivery.id} job.{JobState.SUCCEEDED} {job_id}" in output.read_text()

    assert told() == (("delivered", 204), True)
    keys.rotate(tenant, overlap=timedelta(hours=1))
    assert told() == (("delivered", 204), True)
    keys.rotate(tenant, overlap=timedelta(0))
    assert told() == (("due", 401), False)
