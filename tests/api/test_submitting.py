"""Handing documents in."""

from contextlib import closing
from http.client import HTTPConnection

import pytest
import urllib3

from tests.waiting import eventually

MOST_BYTES = 30_000_000
"""What the shared server takes."""
PDF = b"%PDF-1.7\n" + b"0" * 2000


def form(*fields, file=("0001.pdf", PDF)):
    return [*fields, *([("file", file)] if file else [])]


def test_a_raw_body_becomes_a_job_whose_bytes_lie_in_the_store(api, museum, tenant):
    answer = museum(
        "POST", "/v1/jobs?name=box%2017.pdf&label=box-17&priority=5&dpi=300&format=text&pages=7,1-3", body=PDF
    )
    assert answer.status == 201, answer.body
    job = answer.json
    assert answer.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert (job["state"], job["name"], job["label"], job["priority"]) == ("submitted", "box 17.pdf", "box-17", 5)
    assert job["options"] == {"dpi": 300.0, "formats": ["text"], "pages": "1-3,7"}
    assert job["pages"] == {"total": None, "done": 0, "outcomes": {}}
    assert api.stored(job["id"]) == PDF
    assert api.rows.sql("SELECT tenant FROM job WHERE id = :id", id=job["id"])[0].tenant == tenant


def test_a_form_becomes_a_job_with_the_file_s_name_but_never_its_path(api, museum):
    fields = form(
        ("priority", "7"),
        ("format", "text"),
        ("format", "json"),
        file=("../etc/0001.pdf", PDF),
    )
    answer = museum("POST", "/v1/jobs", fields=fields)
    assert answer.status == 201, answer.body
    job = answer.json
    assert (job["name"], job["priority"], job["options"]) == ("0001.pdf", 7, {"formats": ["text", "json"]})
    assert api.stored(job["id"]) == PDF


def test_a_document_of_several_parts_arrives_whole(api, museum):
    content = PDF + bytes(range(256)) * 80_000  # 20 MB
    answer = museum("POST", "/v1/jobs", body=content)
    assert answer.status == 201, answer.body
    assert api.stored(answer.json["id"]) == content


def test_a_uri_becomes_a_job(museum):
    answer = museum("POST", "/v1/jobs", json={"source_uri": "s3://archive/box-17/0001.pdf", "hours": "20:00-06:00"})
    assert answer.status == 201, answer.body
    assert (answer.json["name"], answer.json["hours"]) == ("0001.pdf", "20:00-06:00")


def test_what_was_submitted_says_by_which_key_and_from_where(api, museum):
    job_id = museum("POST", "/v1/jobs", body=PDF).json["id"]
    key_id = museum.token.split("_")[1]
    assert api.actors(job_id, "job.submitted") == [f"key {key_id} 127.0.0.1"]


NO_DOCUMENTS = {
    b"": (422, "empty_file"),
    b"Dear Sir": (415, "not_a_document"),
    b"PK\x03\x04" + b"0" * 26 + b"word/": (415, "unsupported_type"),
}


def test_what_is_no_document_is_told_by_its_bytes(api, museum, tenant):
    headers = {"Content-Type": "application/pdf"}
    answers = {body: museum("POST", "/v1/jobs?name=letter.pdf", body=body, headers=headers) for body in NO_DOCUMENTS}
    assert {body: (answer.status, answer.code) for body, answer in answers.items()} == NO_DOCUMENTS
    assert {answer.headers["Content-Type"] for answer in answers.values()} == {"application/problem+json"}
    assert api.rows.sql("SELECT id FROM job WHERE tenant = :tenant", tenant=tenant) == []


def test_a_document_that_is_too_large_is_refused_before_it_is_read_or_while(museum):
    streamed = museum("POST", "/v1/jobs", body=(PDF[:1000] * 1000 for _ in range(31)))
    assert (streamed.status, streamed.code) == (413, "file_too_large")
    with closing(HTTPConnection(museum.url.removeprefix("http://"), timeout=20)) as connection:
        headers = {"Content-Length": str(MOST_BYTES + 1), "Authorization": f"Bearer {museum.token}"}
        connection.request("POST", "/v1/jobs", headers=headers)
        assert connection.getresponse().status == 413


def test_an_upload_that_is_cut_leaves_nothing_in_the_store(api, museum, tenant):
    def cut():
        yield PDF + b"0" * 9_000_000
        eventually(lambda: api.uploads() - before)
        raise ConnectionAbortedError

    before = api.uploads()
    with pytest.raises(urllib3.exceptions.ProtocolError):
        museum("POST", "/v1/jobs", body=cut())
    eventually(lambda: api.uploads() == before)
    assert api.rows.sql("SELECT id FROM job WHERE tenant = :tenant", tenant=tenant) == []


@pytest.mark.parametrize(
    "query",
    ["priority=101", "priority=x", "dpi=5", "format=pdf", "lane=tpu", "name=", "surprise=1", "priority=1&priority=2",
     "pages=3-2", "pages=all", "hours=late", "label=a%00b", "deadline=tomorrow", "options={}", "name=%01"],
)  # fmt: skip
def test_wrong_fields_are_named(museum, query):
    answer = museum("POST", f"/v1/jobs?{query}", body=PDF)
    assert (answer.status, answer.code) == (422, "invalid_request"), answer.body


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"source_uri": "file:///etc/passwd"},
        {"source_uri": "ftp://127.0.0.1/"},
        {"source_uri": "https://archive.test/a b"},
        {"source_uri": "s3://archive/"},
        {"source_uri": "s3://archive/1.pdf", "surprise": 1},
        {"source_uri": "s3://archive/1.pdf", "options": {"dpi": 5}},
    ],
)
def test_wrong_json_is_refused(museum, body):
    answer = museum("POST", "/v1/jobs", json=body)
    assert (answer.status, answer.code) == (422, "invalid_request"), answer.body


def test_callers_name_only_buckets_that_the_settings_name(museum):
    answer = museum("POST", "/v1/jobs", json={"source_uri": "s3://muniment/originals/aa/aa"})
    assert (answer.status, answer.code) == (403, "source_not_allowed")


def test_a_tenant_s_bucket_is_named_by_nobody_else(api, museum):
    owned = {"source_uri": "s3://owned/1.pdf"}
    owner = api.caller(tenant="owner")
    assert [owner("POST", "/v1/jobs", json=source).status for source in (owned, {"source_uri": "s3://archive/1"})] == [
        201, 201,
    ]  # fmt: skip
    for answer in (
        museum("POST", "/v1/jobs", json=owned),
        museum("POST", "/v1/batches", json={"label": "box-17", "sources": [owned]}),
    ):
        assert (answer.status, answer.code) == (403, "source_not_allowed")


def test_a_document_may_lie_at_a_web_server_and_is_looked_for_there_later(museum):
    answer = museum("POST", "/v1/jobs", json={"source_uri": "https://archive.test/box-17/0001.pdf?signature=1"})
    assert (answer.status, answer.json["name"]) == (201, "0001.pdf")


@pytest.mark.parametrize(
    "url", ["http://archive.test/1.pdf", "https://user:secret@archive.test/1.pdf", "https://archive.test:22/1.pdf"]
)
def test_urls_that_would_never_be_fetched_are_refused_at_once(museum, url):
    answer = museum("POST", "/v1/jobs", json={"source_uri": url})
    assert (answer.status, answer.code, b"secret" in answer.body) == (403, "source_not_allowed", False)


def test_fields_of_the_body_go_before_those_of_the_query(museum):
    query = "priority=5&label=box-17&dpi=300"
    by_uri = {"source_uri": "s3://archive/1.pdf", "label": "box-18", "options": {"lane": "cpu"}}
    jobs = [
        museum("POST", f"/v1/jobs?{query}", json=by_uri).json,
        museum("POST", f"/v1/jobs?{query}", fields=form(("label", "box-18"), ("lane", "cpu"))).json,
    ]
    assert [(job["priority"], job["label"], job["options"]) for job in jobs] == [
        (5, "box-18", {"dpi": 300.0, "lane": "cpu"})
    ] * 2


def test_a_password_is_kept_apart_and_never_repeated(api, museum):
    by_form = museum("POST", "/v1/jobs", fields=form(("password", "open sesame")))
    by_uri = museum("POST", "/v1/jobs", json={"source_uri": "s3://archive/1.pdf", "password": "open sesame"})
    for answer in (by_form, by_uri):
        assert answer.status == 201, answer.body
        assert b"sesame" not in answer.body + museum("GET", answer.headers["Location"]).body
        kept = api.rows.sql("SELECT password FROM job_secret WHERE job_id = :id", id=answer.json["id"])
        assert kept[0].password == "open sesame"
    refused = museum("POST", "/v1/jobs?password=sesame", body=PDF)
    assert (refused.status, refused.code, b"sesame" in refused.body) == (422, "invalid_request", False)
    assert "sesame" not in api.log()


@pytest.mark.parametrize("fields", [form(file=None), form(("priority", "x")), [("file", PDF), ("file", PDF)]])
def test_wrong_forms_are_refused(museum, fields):
    assert museum("POST", "/v1/jobs", fields=fields).status == 422


def test_a_form_that_is_cut_short_is_refused(museum):
    headers = {"Content-Type": "multipart/form-data; boundary=cut"}
    begun = b'--cut\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + PDF
    answer = museum("POST", "/v1/jobs", body=begun, headers=headers)
    assert (answer.status, answer.code) == (422, "invalid_request")


def test_the_same_idempotency_key_gives_the_same_job(api, museum, tenant):
    headers = {"Idempotency-Key": "box-17/0001"}
    first = museum("POST", "/v1/jobs?dpi=300", body=PDF, headers=headers)
    again = museum("POST", "/v1/jobs?dpi=300", body=PDF, headers=headers)
    other = museum("POST", "/v1/jobs?dpi=200", body=PDF, headers=headers)
    assert (first.status, again.status) == (201, 200)
    assert first.json["id"] == again.json["id"]
    assert (other.status, other.code) == (409, "idempotency_key_reused")
    kept = api.rows.sql("SELECT upload_key FROM job WHERE tenant = :tenant", tenant=tenant)
    assert len(kept) == 1
    assert api.stored(first.json["id"]) == PDF


def test_an_idempotency_key_is_its_tenant_s_own(museum, library):
    headers = {"Idempotency-Key": "1"}
    ids = {caller("POST", "/v1/jobs", body=PDF, headers=headers).json["id"] for caller in (museum, library)}
    assert len(ids) == 2


def test_a_quota_of_pages_is_for_a_day(api, tenant):
    caller = api.caller(tenant=tenant, pages_per_day=2)
    first = caller("POST", "/v1/jobs", body=PDF)
    assert first.status == 201
    api.rows.sql("UPDATE job SET page_count = 2 WHERE id = :id", id=first.json["id"])
    refused = caller("POST", "/v1/jobs", body=PDF)
    assert (refused.status, refused.code) == (429, "quota_exceeded")
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    assert caller("GET", f"/v1/jobs/{first.json['id']}").status == 200


def test_a_batch_is_handed_in_watched_and_held_together(museum):
    sources = [{"source_uri": f"s3://archive/box-17/{number}.pdf", "priority": number} for number in (1, 2)]
    entered = museum("POST", "/v1/batches", json={"label": "box-17", "sources": sources})
    assert entered.status == 201, entered.body
    assert len(entered.json["jobs"]) == 2
    seen = museum("GET", "/v1/batches/box-17").json
    assert (seen["jobs"], seen["pages"]["done"], seen["paused"]) == ({"submitted": 2}, 0, False)
    assert museum("POST", "/v1/batches/box-17/pause").json["jobs"] == entered.json["jobs"]
    assert museum("GET", "/v1/batches").json["batches"][0]["paused"] is True
    assert museum("PATCH", "/v1/batches/box-17", json={"priority": 9}).status == 200
    jobs = museum("GET", "/v1/jobs?label=box-17").json["jobs"]
    assert [(job["priority"], job["paused"]) for job in jobs] == [(9, True), (9, True)]
    assert museum("POST", "/v1/batches/box-17/resume").status == 200
    assert len(museum("POST", "/v1/batches/box-17/cancel").json["jobs"]) == 2
    assert museum("POST", "/v1/batches/box-18/cancel").status == 404


def test_a_batch_is_entered_whole_or_not_at_all(museum):
    sources = [{"source_uri": "s3://archive/1.pdf"}, {"source_uri": "s3://elsewhere/2.pdf"}]
    assert museum("POST", "/v1/batches", json={"label": "b", "sources": sources}).code == "source_not_allowed"
    assert museum("GET", "/v1/jobs").json["jobs"] == []
