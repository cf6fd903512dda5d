"""What callers do to jobs that are there."""

import pytest

from pipeline.domain import keys
from tests.rows import unknown


def actor(caller):
    return f"key {caller.token.split('_')[1]} 127.0.0.1"


def test_a_job_is_held_changed_and_cancelled_and_each_act_says_whose(api, museum, tenant):
    job_id = api.rows.running(3, tenant=tenant)
    assert museum("POST", f"/v1/jobs/{job_id}/pause").json["paused"] is True
    assert museum("POST", f"/v1/jobs/{job_id}/resume").json["paused"] is False
    changed = museum("PATCH", f"/v1/jobs/{job_id}", json={"priority": 9, "hours": "20:00-06:00 Asia/Shanghai"}).json
    assert (changed["priority"], changed["hours"]) == (9, "20:00-06:00 Asia/Shanghai")
    assert museum("PATCH", f"/v1/jobs/{job_id}", json={"hours": "any"}).json["hours"] is None
    assert museum("POST", f"/v1/jobs/{job_id}/cancel").json["cancelling"] is True
    assert set(api.actors(job_id, "job.control")) == {actor(museum)}


@pytest.mark.parametrize("act", ["cancel", "pause", "resume"])
def test_an_ended_job_is_neither_held_nor_stopped(api, museum, tenant, act):
    answer = museum("POST", f"/v1/jobs/{api.ended(tenant=tenant)}/{act}")
    assert (answer.status, answer.code) == (409, "has_ended")


def test_an_ended_job_is_begun_again_with_other_options(api, museum, tenant):
    job_id = api.ended(tenant=tenant)
    nothing = museum("POST", f"/v1/jobs/{job_id}/retry")
    assert (nothing.status, nothing.code) == (409, "nothing_to_retry")
    again = museum("POST", f"/v1/jobs/{job_id}/retry", json={"all_pages": True, "options": {"dpi": 300}})
    assert (again.status, again.json["state"], again.json["options"]) == (200, "submitted", {"dpi": 300.0})
    assert museum("POST", f"/v1/jobs/{job_id}/retry").code == "not_finished"
    assert api.actors(job_id, "job.submitted")[-1] == actor(museum)


def test_hours_of_a_zone_that_is_none_are_refused(api, museum, tenant):
    answer = museum("PATCH", f"/v1/jobs/{api.rows.running(1, tenant=tenant)}", json={"hours": "20:00-06:00 Mars/Base"})
    assert (answer.status, answer.code) == (422, "invalid_options")


def test_a_deleted_job_is_gone_with_all_its_content_and_its_trail_stays(api, museum, tenant):
    job_id = api.ended(tenant=tenant)
    sha256 = "ab" + job_id.hex + job_id.hex[:30]
    api.objects.put(keys.original(sha256), b"%PDF-", media_type="application/pdf")
    api.rows.sql("UPDATE job SET sha256 = :sha256 WHERE id = :id", sha256=sha256, id=job_id)
    shares_it = api.rows.submitted(tenant=f"library-{tenant}")
    api.rows.sql("UPDATE job SET sha256 = :sha256 WHERE id = :id", sha256=sha256, id=shares_it)

    assert museum("DELETE", f"/v1/jobs/{job_id}").status == 204
    assert museum("GET", f"/v1/jobs/{job_id}").status == 404
    assert museum("DELETE", f"/v1/jobs/{job_id}").status == 404
    assert objects_below(api, f"jobs/{job_id}/") == []
    assert api.actors(job_id, "job.deleted") == [actor(museum)]
    assert api.objects.size(keys.original(sha256)) is not None, "another job has it"

    api.rows.sql("UPDATE job SET state = 'cancelled', finished_at = now() WHERE id = :id", id=shares_it)
    assert api.caller(tenant=f"library-{tenant}")("DELETE", f"/v1/jobs/{shares_it}").status == 204
    assert api.objects.size(keys.original(sha256)) is None


def test_an_open_job_is_not_deleted(api, museum, tenant):
    job_id = api.rows.running(1, tenant=tenant)
    assert museum("DELETE", f"/v1/jobs/{job_id}").code == "not_finished"
    assert museum("GET", f"/v1/jobs/{job_id}").status == 200


def objects_below(api, prefix):
    found = api.objects._client.list_objects(api.settings.objects.bucket, prefix=prefix, recursive=True)
    return [item.object_name for item in found]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/cancel"), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/retry"), ("PATCH", ""), ("DELETE", "")],
)
def test_another_tenant_s_job_is_as_if_it_were_not_there(api, library, tenant, method, path):
    mine = api.rows.running(1, tenant=tenant)
    body = {"priority": 1} if method == "PATCH" else None
    theirs = library(method, f"/v1/jobs/{mine}{path}", json=body)
    nobodys = library(method, f"/v1/jobs/{unknown()}{path}", json=body)
    assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body) == (404, nobodys.body)
    [row] = api.rows.sql("SELECT priority, paused, cancel_requested FROM job WHERE id = :id", id=mine)
    assert tuple(row) == (0, False, False)
