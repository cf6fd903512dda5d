"""Documents that come in parts."""

import hashlib
import random
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.multipart_uploads import S3MultipartUploads
from pipeline.adapters.uploads import PostgresUploads
from pipeline.domain.upload_parts import MAX_PARTS, PART_BYTES, cut
from tests.waiting import eventually

CONTENT = b"%PDF-1.7\n" + random.Random(17).randbytes(2 * PART_BYTES)
"""Three parts, the last of them of nine bytes."""


def begun(caller, status=201, **headers):
    answer = caller("POST", "/v1/uploads", json={"size_bytes": len(CONTENT)}, headers=headers)
    assert answer.status == status, answer.body
    assert answer.headers["Location"] == f"/v1/uploads/{answer.json['id']}"
    return answer.json


def part(content, number):
    return content[(number - 1) * PART_BYTES : number * PART_BYTES]


def put(caller, upload, number, content=CONTENT):
    return caller("PUT", f"/v1/uploads/{upload['id']}/parts/{number}", body=part(content, number))


def there(caller, upload):
    return [part["number"] for part in caller("GET", f"/v1/uploads/{upload['id']}").json["parts"]]


def complete(caller, upload, **fields):
    return caller("POST", f"/v1/uploads/{upload['id']}/complete", json=fields)


@given(st.integers(1, 200_000_000_000))
def test_parts_make_up_the_whole_and_s3_takes_each(size_bytes):
    parts = cut(size_bytes)
    assert 1 <= parts.parts <= MAX_PARTS
    # All between the first and the last are alike.
    assert parts.bytes_of(1) * (parts.parts - 1) + parts.bytes_of(parts.parts) == size_bytes
    assert parts.parts == 1 or parts.bytes_of(1) >= 5 * 1024**2
    for number in (0, parts.parts + 1):
        with pytest.raises(ValueError, match="no"):
            parts.bytes_of(number)


def test_parts_in_any_order_and_through_any_server_make_a_job(api, another_api, museum):
    elsewhere = another_api.start().with_token(museum.token)
    upload = begun(museum)
    assert (upload["size_bytes"], upload["part_bytes"], upload["part_count"]) == (len(CONTENT), PART_BYTES, 3)
    answers = [put(caller, upload, number) for number, caller in ((3, museum), (1, elsewhere), (2, museum))]
    assert [answer.json["sha256"] for answer in answers] == [
        hashlib.sha256(part(CONTENT, number)).hexdigest() for number in (3, 1, 2)
    ]
    job = complete(elsewhere, upload, name="box 17.pdf", label="box-17", priority=5, options={"dpi": 300})
    assert job.status == 201, job.body
    assert (job.json["name"], job.json["label"], job.json["priority"]) == ("box 17.pdf", "box-17", 5)
    assert job.json["options"] == {"dpi": 300.0}
    assert api.stored(job.json["id"]) == CONTENT
    assert museum("GET", f"/v1/uploads/{upload['id']}").status == 404


def test_a_part_that_comes_again_replaces_the_one_before(api, museum):
    upload = begun(museum)
    for content in (CONTENT[:-9] + b"otherwise", CONTENT):
        for number in (1, 2, 3):
            assert put(museum, upload, number, content).status == 200
    assert there(museum, upload) == [1, 2, 3]
    assert api.stored(complete(museum, upload).json["id"]) == CONTENT


def test_what_is_completed_again_and_at_the_same_time_is_one_job(api, museum, tenant):
    upload = begun(museum)
    for number in (1, 2, 3):
        put(museum, upload, number)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: complete(museum, upload), range(4)))
    answers.append(complete(museum, upload))
    assert {answer.status for answer in answers} <= {200, 201}
    assert answers[-1].status == 200
    [row] = api.rows.sql("SELECT id FROM job WHERE tenant = :tenant", tenant=tenant)
    assert {answer.json["id"] for answer in answers} == {str(row.id)}
    assert api.stored(row.id) == CONTENT


def test_whoever_died_between_object_and_job_is_followed_by_another(api, museum, tenant):
    upload = begun(museum)
    for number in (1, 2, 3):
        put(museum, upload, number)
    dead = PostgresUploads(api.rows.engine).find(UUID(upload["id"]), tenant)
    store = S3MultipartUploads(api.settings.objects)
    store.finish(dead.key, dead.store_id, [taken.stored for taken in dead.parts])
    job = complete(museum, upload)
    assert job.status == 201, job.body
    assert api.stored(job.json["id"]) == CONTENT


def test_the_same_idempotency_key_goes_on_with_the_upload_and_then_names_the_job(api, museum):
    before = api.uploads()
    named = {"Idempotency-Key": "box-17/0001"}
    upload = begun(museum, **named)
    put(museum, upload, 1)
    again = begun(museum, status=200, **named)
    assert (again["id"], [part["number"] for part in again["parts"]]) == (upload["id"], [1])
    assert len(api.uploads() - before) == 1
    other = museum("POST", "/v1/uploads", json={"size_bytes": 5}, headers=named)
    assert (other.status, other.code) == (409, "idempotency_key_reused")
    for number in (2, 3):
        put(museum, upload, number)
    job = complete(museum, upload)
    late = museum("POST", "/v1/uploads", json={"size_bytes": len(CONTENT)}, headers=named)
    assert (late.status, late.code) == (409, "idempotency_key_reused")
    assert late.headers["Location"] == job.headers["Location"]


def test_missing_parts_are_named_and_nothing_becomes_of_it(api, museum, tenant):
    upload = begun(museum)
    put(museum, upload, 2)
    answer = complete(museum, upload)
    assert (answer.status, answer.code) == (409, "not_finished")
    assert answer.json["detail"] == "2 of 3 parts are missing: 1, 3 first"
    assert there(museum, upload) == [2]
    assert api.rows.sql("SELECT id FROM job WHERE tenant = :tenant", tenant=tenant) == []


@pytest.mark.parametrize(
    ("number", "body", "status", "code"),
    [
        (1, CONTENT[:100], 422, "invalid_request"),
        (3, b"0123456789", 422, "invalid_request"),
        (4, b"0", 422, "invalid_request"),
        (0, b"0", 422, "invalid_request"),
        (10_001, b"0", 422, "invalid_request"),
        (1, b"Dear Sir," * (PART_BYTES // 9) + b"yours", 415, "not_a_document"),
    ],
    ids=["short", "long", "behind the last", "before the first", "more than any", "no document"],
)
def test_a_part_that_does_not_fit_is_refused(museum, number, body, status, code):
    upload = begun(museum)
    answer = museum("PUT", f"/v1/uploads/{upload['id']}/parts/{number}", body=body)
    assert (answer.status, answer.code) == (status, code), answer.body
    assert there(museum, upload) == []


@pytest.mark.parametrize(("size_bytes", "status", "code"), [
    (30_000_001, 413, "file_too_large"), (0, 422, "invalid_request"), ("9", 422, "invalid_request"),
])  # fmt: skip
def test_a_size_that_is_not_taken_is_refused_at_the_beginning(museum, size_bytes, status, code):
    answer = museum("POST", "/v1/uploads", json={"size_bytes": size_bytes})
    assert (answer.status, answer.code) == (status, code)


def test_what_is_given_up_leaves_nothing(api, museum):
    before = api.uploads()
    upload = begun(museum)
    put(museum, upload, 1)
    assert api.uploads() - before
    assert museum("DELETE", f"/v1/uploads/{upload['id']}").status == 204
    assert api.uploads() == before
    gone = [put(museum, upload, 1), complete(museum, upload), museum("DELETE", f"/v1/uploads/{upload['id']}")]
    assert [(answer.status, answer.code) for answer in gone] == [(404, "not_found")] * 3


def test_what_has_become_a_job_is_not_given_up(api, museum):
    upload = begun(museum)
    for number in (1, 2, 3):
        put(museum, upload, number)
    job = complete(museum, upload).json
    gone = [put(museum, upload, 1), museum("DELETE", f"/v1/uploads/{upload['id']}")]
    assert [(answer.status, answer.code) for answer in gone] == [(404, "not_found")] * 2
    assert api.stored(job["id"]) == CONTENT


def test_what_nobody_goes_on_with_is_given_up(museum, another_api, api):
    before = api.uploads()
    upload = begun(museum)
    api.rows.sql("UPDATE upload SET created_at = now() - interval '8 days' WHERE id = :id", id=upload["id"])
    # The store counts by its own clock.
    another_api.start(MUNIMENT_RETENTION__UPLOADS="604800")
    eventually(lambda: museum("GET", f"/v1/uploads/{upload['id']}").status == 404)
    assert api.uploads() - before == {f"uploads/{upload['id']}"}


def test_a_tenant_has_a_bounded_number_of_them_open(another_api, tenant):
    another_api.start(MUNIMENT_API__OPEN_UPLOADS="2")
    museum, library = another_api.caller(tenant=tenant), another_api.caller(tenant=f"library-{tenant}")
    before = another_api.uploads()
    first = begun(museum)
    begun(museum)
    refused = museum("POST", "/v1/uploads", json={"size_bytes": 1})
    assert (refused.status, refused.code, refused.headers["Retry-After"]) == (429, "busy", "60")
    assert len(another_api.uploads() - before) == 2
    begun(library)
    assert museum("DELETE", f"/v1/uploads/{first['id']}").status == 204
    begun(museum)


def test_another_tenant_neither_sees_nor_ends_it(api, museum, library):
    upload = begun(museum)
    for answer in (put(library, upload, 1), complete(library, upload)):
        assert (answer.status, answer.code) == (404, "not_found")
    assert there(museum, upload) == []


def test_a_link_that_is_cut_costs_the_part_that_was_on_its_way(api, another_api, museum):
    """Cut twice within a part, gone on with in another process, which asks what is there."""
    upload = begun(museum)
    put(museum, upload, 1)
    for _ in range(2):
        cut_off(museum, upload, 2)
    elsewhere = another_api.start().with_token(museum.token)
    missing = sorted({1, 2, 3} - set(there(elsewhere, upload)))
    assert missing == [2, 3]
    for number in missing:
        assert put(elsewhere, upload, number).status == 200
    assert api.stored(complete(elsewhere, upload).json["id"]) == CONTENT


def cut_off(caller, upload, number):
    connection = HTTPConnection(caller.url.removeprefix("http://"), timeout=20)
    connection.putrequest("PUT", f"/v1/uploads/{upload['id']}/parts/{number}")
    connection.putheader("Authorization", f"Bearer {caller.token}")
    connection.putheader("Content-Length", str(PART_BYTES))
    connection.endheaders(part(CONTENT, number)[: PART_BYTES // 2])
    connection.close()
