"""Jobs, pages, results and events, for those who watch."""

import json
from dataclasses import replace

import pytest

from pipeline.domain.recognition import Flag, PageOutcome
from pipeline.domain.states import AttemptOutcome
from pipeline.ports.chunks import Measured
from tests.rows import entry, unknown
from tests.waiting import eventually


def test_a_job_says_what_it_waits_for_and_how_far_it_is(api, museum, tenant):
    job_id, chunk = api.claimed(3, tenant=tenant)
    api.rows.chunks.record(chunk.claim, [entry(1), entry(2, outcome=PageOutcome.FAILED)])
    seen = museum("GET", f"/v1/jobs/{job_id}").json
    assert seen["state"] == "running"
    assert seen["pages"] == {"total": 3, "done": 2, "outcomes": {"recognised": 1, "failed": 1}}
    assert "lane cpu" in seen["waits_for"]
    assert seen["queue"]["jobs_ahead"] == 0
    assert seen["time_left"] is None
    pages = museum("GET", f"/v1/jobs/{job_id}/pages").json["pages"]
    assert [(page["number"], page["class"], page["outcome"]) for page in pages] == [
        (1, "scan", "recognised"),
        (2, "scan", "failed"),
        (3, "scan", None),
    ]
    assert pages[1]["error"] == {"code": "page_damaged", "message": "it can't be decoded"}
    failed = museum("GET", f"/v1/jobs/{job_id}/pages?outcome=failed").json["pages"]
    assert [page["number"] for page in failed] == [2]


def test_pages_come_in_parts(api, museum, tenant):
    job_id = api.rows.running(5, tenant=tenant)
    first = museum("GET", f"/v1/jobs/{job_id}/pages?limit=3").json
    rest = museum("GET", f"/v1/jobs/{job_id}/pages?limit=3&cursor={first['next']}").json
    assert [page["number"] for page in first["pages"] + rest["pages"]] == [1, 2, 3, 4, 5]
    assert rest["next"] is None


def test_jobs_are_listed_newest_first_in_parts_and_by_filters(api, museum, tenant):
    ids = [str(api.rows.submitted(tenant=tenant, label=f"box-{number % 2}")) for number in range(5)]
    api.rows.cancel([api.rows.running(1, tenant=tenant, label="box-9")])
    seen, cursor = [], ""
    while cursor is not None:
        found = museum("GET", f"/v1/jobs?state=submitted&limit=2{cursor and f'&cursor={cursor}'}").json
        seen += [job["id"] for job in found["jobs"]]
        cursor = found["next"]
    assert seen == ids[::-1]
    by_label = museum("GET", "/v1/jobs?label=box-1").json["jobs"]
    assert [job["id"] for job in by_label] == [ids[3], ids[1]]
    assert museum("GET", "/v1/jobs?created_before=2020-01-01T00:00:00Z").json["jobs"] == []
    assert len(museum("GET", "/v1/jobs?created_from=2020-01-01T00:00:00Z").json["jobs"]) == 6


def test_a_small_result_is_in_the_answer_and_need_not_be_fetched_twice(api, museum, tenant):
    job_id = api.ended(result="über".encode(), tenant=tenant)
    path = f"/v1/jobs/{job_id}/result?format=text"
    answer = museum("GET", path)
    assert (answer.status, answer.body.decode()) == (200, "über")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert 'filename="0001_pdf.txt"' in answer.headers["Content-Disposition"]
    again = museum("GET", path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert museum("GET", f"/v1/jobs/{job_id}").json["results"] == {"text": path}


PARTS = {
    "bytes=2-4": (206, "bytes 2-4/10", b"234"),
    "bytes=7-": (206, "bytes 7-9/10", b"789"),
    "bytes=-3": (206, "bytes 7-9/10", b"789"),
    "bytes=8-99": (206, "bytes 8-9/10", b"89"),
    "bytes=4-2": (200, None, b"0123456789"),
    "bytes=1-2,4-5": (200, None, b"0123456789"),
    "lines=1-2": (200, None, b"0123456789"),
}


def test_any_part_of_a_result_can_be_had(api, museum, tenant):
    path = f"/v1/jobs/{api.ended(result=b'0123456789', tenant=tenant)}/result?format=text"
    answers = {asked: museum("GET", path, headers={"Range": asked}) for asked in PARTS}
    assert {
        asked: (answer.status, answer.headers.get("Content-Range"), answer.body) for asked, answer in answers.items()
    } == PARTS
    outside = museum("GET", path, headers={"Range": "bytes=10-"})
    assert (outside.status, outside.code, outside.headers["Content-Range"]) == (
        416,
        "range_not_satisfiable",
        "bytes */10",
    )


def test_a_part_of_another_result_than_was_meant_is_not_sent(api, museum, tenant):
    job_id = api.ended(result=b"0123456789", tenant=tenant)
    headers = {"Range": "bytes=2-4", "If-Range": '"another"'}
    assert museum("GET", f"/v1/jobs/{job_id}/result?format=text", headers=headers).body == b"0123456789"


def test_a_large_result_is_behind_a_link_that_needs_no_key_and_can_be_had_again(api, museum, tenant):
    job_id = api.ended(result=b"0" * 3000, tenant=tenant)
    for _ in range(2):
        answer = museum("GET", f"/v1/jobs/{job_id}/result?format=text")
        assert answer.status == 303
        followed = api.pool.request("GET", answer.headers["Location"])
        assert (followed.status, followed.data) == (200, b"0" * 3000)
        assert "0001_pdf.txt" in followed.headers["Content-Disposition"]
    part = api.pool.request("GET", answer.headers["Location"], headers={"Range": "bytes=0-9"})
    assert (part.status, part.data) == (206, b"0" * 10)


def test_a_result_that_is_not_there_yet_and_one_that_never_comes_are_told_apart(api, museum, tenant):
    running, ended = api.rows.running(1, tenant=tenant), api.ended(tenant=tenant)
    early = museum("GET", f"/v1/jobs/{running}/result")
    never = museum("GET", f"/v1/jobs/{ended}/result?format=markdown")
    assert [(early.status, early.code), (never.status, never.code)] == [(409, "not_finished"), (404, "no_result")]


def test_a_page_can_be_had_before_its_document_is_done(api, museum, tenant):
    job_id = api.read("recto", "verso", tenant=tenant)
    as_json = museum("GET", f"/v1/jobs/{job_id}/pages/2")
    assert (as_json.json["number"], as_json.json["text"]) == (2, "verso")
    assert museum("GET", f"/v1/jobs/{job_id}/pages/1?format=text").body == b"recto"
    assert museum("GET", f"/v1/jobs/{job_id}/pages/3").status == 404
    unread = api.rows.running(1, tenant=tenant)
    assert museum("GET", f"/v1/jobs/{unread}/pages/1").code == "not_finished"


# --- events


class Stream:
    """Reads Server-Sent Events."""

    def __init__(self, response):
        self.status = response.status
        self.response = response

    def __iter__(self):
        event = {}
        for line in self.lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                event[name] = json.loads(value) if name == "data" else value
            elif event:
                yield event
                event = {}

    def lines(self):
        rest = b""
        for piece in self.response.stream(1):
            rest += piece
            while b"\n" in rest:
                line, _, rest = rest.partition(b"\n")
                yield line.decode()

    def until_end(self):
        return list(self)


def kinds(events):
    return [event["data"]["kind"] for event in events if event["event"] == "move"]


def test_events_of_an_ended_job_are_told_from_the_beginning_and_then_none_follow(api, museum, tenant):
    job_id = api.ended(tenant=tenant)
    stream = Stream(museum.stream(f"/v1/jobs/{job_id}/events"))
    events = stream.until_end()
    whole = ["submitted", "planning", "running", "merging", "exporting", "delivering", "succeeded"]
    assert kinds(events) == [f"job.{state}" for state in whole]
    assert events[-1]["data"] == {
        "state": "succeeded",
        "pages": {"total": 1, "done": 1, "outcomes": {"recognised": 1}},
    }
    ids = [event["id"] for event in events if "id" in event]
    behind = Stream(museum.stream(f"/v1/jobs/{job_id}/events", **{"Last-Event-ID": ids[3]})).until_end()
    assert kinds(behind) == [f"job.{state}" for state in whole[4:]]
    assert museum.stream(f"/v1/jobs/{job_id}/events", **{"Last-Event-ID": ids[-1]}).status == 204


def test_events_come_as_they_happen(api, museum, tenant):
    job_id, chunk = api.claimed(2, tenant=tenant)
    events = iter(Stream(museum.stream(f"/v1/jobs/{job_id}/events")))
    assert kinds([next(events) for _ in range(3)]) == ["job.submitted", "job.planning", "job.running"]
    assert next(events)["data"]["pages"]["done"] == 0
    api.rows.chunks.record(chunk.claim, [entry(1)])
    assert next(events)["data"]["pages"] == {"total": 2, "done": 1, "outcomes": {"recognised": 1}}
    museum("POST", f"/v1/jobs/{job_id}/cancel")
    assert next(events)["data"]["kind"] == "job.control"
    api.rows.chunks.hand_back(chunk.claim, AttemptOutcome.CANCELLED, Measured())
    api.rows.sweeps.end_unwanted()
    assert [event["data"].get("kind", event["data"].get("state")) for event in events] == ["job.cancelled", "cancelled"]


def test_a_stream_ends_when_the_server_is_told_to_stop(another_api, tenant):
    api = another_api.start()
    job_id = api.rows.running(1, tenant=tenant)
    stream = iter(Stream(api.caller(tenant=tenant).stream(f"/v1/jobs/{job_id}/events")))
    next(stream)
    api.stop()
    assert all(event["event"] in ("move", "progress") for event in stream)


# --- others


@pytest.mark.parametrize("path", ["", "/pages", "/pages/1", "/result", "/events"])
def test_another_tenant_s_job_is_as_if_it_were_not_there(api, library, tenant, path):
    theirs = library("GET", f"/v1/jobs/{api.ended(tenant=tenant)}{path}")
    nobodys = library("GET", f"/v1/jobs/{unknown()}{path}")
    assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body) == (404, nobodys.body)


def test_lists_hold_one_s_own_only(api, museum, library, tenant):
    api.rows.submitted(tenant=tenant, label="box-17")
    assert len(museum("GET", "/v1/jobs").json["jobs"]) == len(museum("GET", "/v1/batches").json["batches"]) == 1
    assert library("GET", "/v1/jobs").json["jobs"] == library("GET", "/v1/batches").json["batches"] == []
    assert library("GET", "/v1/batches/box-17").status == 404


def test_administrators_see_queues_devices_and_what_each_key_was_used_for(api, tenant):
    caller = api.caller(tenant=tenant)
    job_id = caller("POST", "/v1/jobs", body=b"%PDF-1.7\n").json["id"]
    api.rows.sql("UPDATE job SET page_count = 12 WHERE id = :id", id=job_id)
    administrator = api.caller(admin_port=True)
    usage = administrator("GET", f"/v1/usage?tenant={tenant}").json
    key_id = caller.token.split("_")[1]
    assert [(line["api_key_id"], line["documents"], line["pages"]) for line in usage["usage"]] == [(key_id, 1, 12)]
    assert administrator("GET", "/v1/usage?last=2020-01-01").json == {"usage": [], "next": None}
    assert administrator("GET", "/v1/queues").json["jobs"]["submitted"] >= 1
    assert "rapidocr" in [engine["name"] for engine in administrator("GET", "/v1/engines").json["engines"]]
    api.rows.sql(
        "INSERT INTO device (id, host, name, kind, lanes) VALUES (:id, :host, 'cpu:0', 'cpu', '[\"cpu\"]')",
        id=f"{tenant}/cpu:0",
        host=tenant,
    )
    [device] = administrator("POST", f"/v1/devices/{tenant}/cpu:0/drain").json["devices"]
    assert (device["host"], device["drain_requested"]) == (tenant, True)
    assert administrator("POST", f"/v1/devices/{tenant}/cpu:0/resume").json["devices"][0]["drain_requested"] is False


def test_health_is_asked_without_a_key(api):
    nobody = api.with_token(None)
    assert [nobody("GET", path).status for path in ("/healthz", "/readyz")] == [200, 200]


def test_metrics_are_on_a_port_of_their_own_and_name_nobody(api, museum, tenant):
    job_id = api.rows.submitted(tenant=tenant, label="box-17")
    museum("GET", f"/v1/jobs/{job_id}")
    museum("GET", "/v1/batches/box-17")
    metrics = eventually(lambda: api.pool.request("GET", api.metrics_url + "/metrics")).data.decode()
    assert 'muniment_api_requests_total{method="GET",route="/v1/jobs/{job_id}",status="200"}' in metrics
    assert not [name for name in (str(job_id), tenant, "box-17") if name in metrics]
    assert museum("GET", "/metrics").status == 404


def flagged(api, *scores, **more):
    """Insert a job with a page for each score, flagged as blurred."""
    job_id, chunk = api.claimed(len(scores), **more)
    flags = [(Flag(name="blurred", score=score),) for score in scores]
    api.rows.chunks.record(
        chunk.claim, [replace(entry(number), flags=raised) for number, raised in enumerate(flags, 1)]
    )
    return str(job_id)


def test_flagged_pages_are_listed_worst_first_in_parts_and_by_filters(api, museum, tenant):
    first = flagged(api, 0.6, 0.9, tenant=tenant, label="box-1")
    second = flagged(api, 0.7, None, tenant=tenant)
    seen, cursor = [], ""
    while cursor is not None:
        found = museum("GET", f"/v1/review?limit=3{cursor and f'&cursor={cursor}'}").json
        seen += [(page["job"], page["number"], page["score"]) for page in found["pages"]]
        cursor = found["next"]
    assert seen == [(first, 2, 0.9), (second, 1, 0.7), (first, 1, 0.6), (second, 2, 0.5)]
    [worst, *_] = museum("GET", f"/v1/review?job={first}&flag=blurred&min_score=0.7&since=2020-01-01T00:00:00Z").json[
        "pages"
    ]
    assert (worst["number"], worst["label"], worst["outcome"]) == (2, "box-1", "recognised")
    assert worst["flags"] == [{"name": "blurred", "score": 0.9}]
    assert worst["image"] == f"/v1/jobs/{first}/pages/2?format=image"
    assert museum("GET", "/v1/review?label=box-2").json == {"pages": [], "next": None}
    pages = museum("GET", f"/v1/jobs/{second}/pages").json["pages"]
    assert [page["flags"] for page in pages] == [[{"name": "blurred", "score": score}] for score in (0.7, None)]


def test_flagged_pages_of_another_tenant_are_not_there(api, museum, library, tenant):
    job_id = flagged(api, 0.6, tenant=tenant, label="box-1")
    for narrowed in ("", f"?job={job_id}", "?label=box-1", "?flag=blurred"):
        assert len(museum("GET", f"/v1/review{narrowed}").json["pages"]) == 1
        assert library("GET", f"/v1/review{narrowed}").json["pages"] == []


@pytest.mark.parametrize(
    "asked", ["cursor=x", "cursor=2_01900000-0000-7000-8000-00000000dead_1", "min_score=2", "flag=A"]
)
def test_a_review_that_can_not_be_asked_for_is_refused(museum, asked):
    refused = museum("GET", f"/v1/review?{asked}")
    assert (refused.status, refused.code) == (422, "invalid_request")
