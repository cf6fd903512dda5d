"""Webhooks from the move of a job to the endpoint, over real rows and real servers."""

import hashlib
import hmac
import json
import threading
from datetime import timedelta
from functools import partial

import pytest

from pipeline.adapters.delivery_log import PostgresDeliveryLog
from pipeline.domain.webhooks import WebhookEvent
from tests.web import WebServer, says
from workers.wiring import Wiring

END = "UPDATE job SET state = 'failed', error_code = 'internal', finished_at = now() WHERE id = :id"


@pytest.fixture
def sender(settings):
    """Return a function that makes senders, by settings of their own."""
    made = []

    def make(**webhooks):
        given = {"http": True, "ports": (), "allowed_networks": ("127.0.0.1/32",), "timeout": timedelta(seconds=20)}
        known = settings.webhooks.model_copy(update=given | webhooks)
        wiring = Wiring(settings.model_copy(update={"webhooks": known}), actor="test")
        made.append(wiring)
        return partial(send_one, wiring.send_webhooks)

    yield make
    for wiring in made:
        wiring.deliveries._engine.dispose()


def send_one(webhooks):
    """Send what is due next, and return how much that was."""
    taken = webhooks.take()
    if taken is None:
        return 0
    webhooks.send(taken)
    return 1


class Deliveries:
    """What the rows say of webhooks."""

    def __init__(self, rows):
        self.rows = rows

    def ended(self, url, *, tenant="museum", **more):
        """Insert a job that has failed, and return its id."""
        job_id = self.rows.submitted(callback_url=url, tenant=tenant, **more)
        self.rows.sql(END, id=job_id)
        return job_id

    def of(self, job_id):
        return self.rows.sql("SELECT * FROM delivery WHERE job_id = :id ORDER BY id", id=job_id)

    def only(self, job_id):
        [delivery] = self.of(job_id)
        return delivery

    def attempts(self, job_id):
        query = (
            "SELECT number, status, error FROM delivery_attempt JOIN delivery ON delivery.id = delivery_id"
            " WHERE job_id = :id ORDER BY number"
        )
        return [tuple(row) for row in self.rows.sql(query, id=job_id)]

    def hasten(self):
        """Let everything be due that waits for its next attempt, and all leases be over."""
        self.rows.sql("UPDATE delivery SET next_at = now() WHERE state = 'due'")
        self.rows.sql("UPDATE endpoint SET not_before = NULL")
        self.rows.sql("UPDATE endpoint SET lease_until = now() WHERE lease_until IS NOT NULL")


@pytest.fixture
def deliveries(rows):
    return Deliveries(rows)


def test_an_ended_job_is_told_of_signed_with_ids_states_counts_and_links(rows, deliveries, sender):
    with WebServer(says(204)) as server:
        job_id = rows.ended(3, 2, callback_url=server.url + "/hook?of=us", tenant="museum", label="box-17")
        send = sender()
        assert (send(), send()) == (1, 0)
    delivery = deliveries.only(job_id)
    assert (delivery.state, delivery.last_status, delivery.attempt) == ("delivered", 204, 1)
    [asked] = server.asked
    assert (asked.method, asked.path) == ("POST", "/hook?of=us")
    assert asked.headers["Muniment-Delivery"] == str(delivery.id)
    assert asked.headers["Muniment-Event"] == "job.succeeded"
    assert asked.headers["Content-Type"] == "application/json"
    [key] = rows.sql("SELECT id, secret FROM webhook_key WHERE tenant = 'museum'")
    sent_at, key_id, mac = (part.partition("=")[2] for part in asked.headers["Muniment-Signature"].split(","))
    assert key_id == key.id
    assert mac == hmac.new(key.secret.encode(), sent_at.encode() + b"." + asked.body, hashlib.sha256).hexdigest()
    told = json.loads(asked.body)
    assert (told["id"], told["event"]) == (str(delivery.id), "job.succeeded")
    job = told["job"]
    assert (job["id"], job["state"], job["label"], job["error_code"]) == (str(job_id), "succeeded", "box-17", None)
    assert job["pages"] == {"total": 5, "outcomes": {"recognised": 5}}
    assert told["links"] == {
        "job": f"/v1/jobs/{job_id}",
        "results": {"text": f"/v1/jobs/{job_id}/result?format=text"},
    }


def test_only_what_was_asked_for_is_told(rows, deliveries):
    asked = (WebhookEvent.RUNNING, WebhookEvent.SUCCEEDED)
    told = rows.ended(1, callback_url="https://museum.test/", callback_events=asked)
    untold = deliveries.ended("https://museum.test/", callback_events=asked)
    silent = rows.ended(1)
    assert [delivery.event for delivery in deliveries.of(told)] == ["job.running", "job.succeeded"]
    assert deliveries.of(untold) == deliveries.of(silent) == []


def test_a_move_that_is_taken_back_is_told_to_nobody(rows, deliveries):
    job_id = rows.submitted(callback_url="https://museum.test/")
    with rows.engine.connect() as connection:
        connection.exec_driver_sql("UPDATE job SET state = 'cancelled', finished_at = now()")
        connection.rollback()
    assert deliveries.of(job_id) == []


def test_what_failed_is_tried_again_later_with_the_same_id_and_body(rows, deliveries, sender):
    answers = [says(500), says(302, Location="/elsewhere"), says(200)]

    def answer(handler):
        answers.pop(0)(handler)

    with WebServer(answer) as server:
        job_id, send = deliveries.ended(server.url), sender()
        for _ in range(3):
            assert send() == 1
            assert send() == 0
            deliveries.hasten()
    assert deliveries.attempts(job_id) == [(1, 500, "status"), (2, 302, "status"), (3, 200, None)]
    assert deliveries.only(job_id).state == "delivered"
    assert len({(asked.headers["Muniment-Delivery"], asked.body) for asked in server.asked}) == 1


def test_a_delivery_is_given_up_after_so_many_tries_and_the_trail_says_so(rows, deliveries, sender):
    with WebServer(says(503)) as server:
        job_id, send = deliveries.ended(server.url), sender(max_tries=3)
        for _ in range(5):
            send()
            deliveries.hasten()
    assert len(server.asked) == 3
    assert (deliveries.only(job_id).state, deliveries.only(job_id).last_status) == ("dead", 503)
    [event] = rows.sql("SELECT detail FROM event WHERE job_id = :id AND kind = 'delivery.dead'", id=job_id)
    assert event.detail["error"] == "status"


@pytest.mark.parametrize(
    ("answer", "webhooks"), [(says(410), {}), (says(200), {"allowed_networks": ()}), (says(200), {"http": False})]
)
def test_who_is_gone_or_may_not_be_told_is_not_tried_again(deliveries, sender, answer, webhooks):
    with WebServer(answer) as server:
        job_id = deliveries.ended(server.url)
        sender(**webhooks)()
    assert deliveries.only(job_id).state == "dead"
    assert len(server.asked) == (0 if webhooks else 1)


def test_an_endpoint_that_is_away_costs_one_attempt_and_then_rests(rows, deliveries, sender):
    with WebServer(says()) as server:
        away = server.url
    jobs = [deliveries.ended(away) for _ in range(3)]
    send = sender()
    assert (send(), send()) == (1, 0)
    assert [len(deliveries.attempts(job_id)) for job_id in jobs] == [1, 0, 0]
    [endpoint] = rows.sql("SELECT failures, not_before > now() AS rests, lease_owner FROM endpoint")
    assert tuple(endpoint) == (1, True, None)


def test_while_an_endpoint_is_slow_the_others_are_told(deliveries, sender):
    entered, leave = threading.Event(), threading.Event()

    def slow(handler):
        entered.set()
        leave.wait(60)
        says()(handler)

    with WebServer(slow) as first, WebServer(says()) as second:
        held = [deliveries.ended(first.url), deliveries.ended(first.url)]
        other = deliveries.ended(second.url)
        send = sender()
        waiting = threading.Thread(target=send)
        waiting.start()
        assert entered.wait(60)
        # The second delivery to the slow one waits for the first; what goes elsewhere does not.
        assert (send(), send()) == (1, 0)
        assert deliveries.only(other).state == "delivered"
        leave.set()
        waiting.join(60)
        assert send() == 1
        assert [deliveries.only(job_id).state for job_id in held] == ["delivered"] * 2


def test_one_tenant_does_not_take_all_of_a_sender(deliveries, sender):
    entered, leave = threading.Semaphore(0), threading.Event()

    def slow(handler):
        entered.release()
        leave.wait(60)
        says()(handler)

    with WebServer(slow) as one, WebServer(slow) as two, WebServer(says()) as three:
        for server in (one, two, three):
            deliveries.ended(server.url, tenant="museum")
        theirs = deliveries.ended(three.url, tenant="library")
        send = sender(at_once=4)
        waiting = [threading.Thread(target=send) for _ in range(2)]
        for thread in waiting:
            thread.start()
            assert entered.acquire(timeout=60)
        assert (send(), send()) == (1, 0)
        assert deliveries.only(theirs).state == "delivered"
        leave.set()
        for thread in waiting:
            thread.join(60)
        assert send() == 1


def test_who_sends_for_too_long_does_not_record_over_the_next(deliveries, sender):
    entered, leave = threading.Event(), threading.Event()

    def first_slow(handler):
        if entered.is_set():
            says(200)(handler)
        else:
            entered.set()
            leave.wait(60)
            says(500)(handler)

    with WebServer(first_slow) as server:
        job_id = deliveries.ended(server.url)
        waiting = threading.Thread(target=sender())
        waiting.start()
        assert entered.wait(60)
        deliveries.hasten()
        assert sender()() == 1
        leave.set()
        waiting.join(60)
    delivery = deliveries.only(job_id)
    assert (delivery.state, delivery.last_status, delivery.attempt) == ("delivered", 200, 2)


def test_what_is_replayed_on_its_way_is_sent_again_whatever_comes_of_that(rows, deliveries, sender):
    entered, leave = threading.Event(), threading.Event()

    def answer(handler):
        is_first = not entered.is_set()
        entered.set()
        leave.wait(60)
        says(410 if is_first else 200)(handler)

    with WebServer(answer) as server:
        job_id, send = deliveries.ended(server.url), sender()
        waiting = threading.Thread(target=send)
        waiting.start()
        assert entered.wait(60)
        assert PostgresDeliveryLog(rows.engine).replay([deliveries.only(job_id).id])
        leave.set()
        waiting.join(60)
        assert deliveries.only(job_id).state == "due"
        assert (send(), send()) == (1, 0)
    assert deliveries.only(job_id).state == "delivered"
    assert deliveries.attempts(job_id) == [(1, 410, "status"), (2, 200, None)]


def test_what_is_too_old_or_was_lost_too_often_is_given_up(rows, deliveries, sender):
    old, lost, fresh = (deliveries.ended(f"https://{name}.test/") for name in ("old", "lost", "fresh"))
    rows.sql("UPDATE delivery SET begun_at = now() - interval '4 days' WHERE job_id = :id", id=old)
    rows.sql("UPDATE delivery SET tries = 16, attempt = 16 WHERE job_id = :id", id=lost)
    rows.sql("INSERT INTO endpoint (tenant, host, taken_at) VALUES ('museum', 'gone.test', now() - interval '2 days')")
    assert sender().args[0].rows.tidy() == 0
    found = [(deliveries.only(job_id).state, deliveries.only(job_id).last_error) for job_id in (old, lost, fresh)]
    assert found == [("dead", "too_old"), ("dead", "lost"), ("due", None)]
    hosts = {row.host for row in rows.sql("SELECT host FROM endpoint")}
    assert hosts == {"old.test", "lost.test", "fresh.test"}


def test_deliveries_go_with_their_job(rows, deliveries, sender):
    with WebServer(says()) as server:
        job_id = deliveries.ended(server.url)
        sender()()
    rows.sql("DELETE FROM job WHERE id = :id", id=job_id)
    assert rows.sql("SELECT id FROM delivery") == rows.sql("SELECT number FROM delivery_attempt") == []
