"""What is kept goes at its age, all of it and nothing else; over real rows and a real store, with the clock moved."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from pipeline.adapters.objects import S3Objects
from pipeline.domain import keys
from pipeline.domain.errors import Transient
from pipeline.domain.profiles import Profile
from pipeline.domain.retention import Kept
from pipeline.domain.states import JobState
from pipeline.steps.expire import Expire

AGE = timedelta(days=30)
ALL = {what.value: AGE for what in Kept}
MARKS = {
    Kept.ORIGINALS: "original_removed_at",
    Kept.PAGE_IMAGES: "page_images_removed_at",
    Kept.SEGMENTS: "segments_removed_at",
    Kept.RESULTS: "results_removed_at",
}


class Archive:
    """Ended jobs with everything that a job may leave in the store."""

    def __init__(self, rows, objects):
        self.rows = rows
        self.objects = S3Objects(objects)

    def job(self, *, days, content="a", tenant="default"):
        """Add a job that ended so many days ago; return its id and its keys by what they belong to."""
        job_id = self.rows.ended(1, tenant=tenant)
        self.rows.sql(
            "UPDATE job SET finished_at = finished_at - make_interval(days => :days), sha256 = :sha256 WHERE id = :id",
            days=days,
            sha256=content * 64,
            id=job_id,
        )
        [chunk] = self.rows.sql("SELECT id FROM chunk WHERE job_id = :id", id=job_id)
        made = {
            Kept.ORIGINALS: {keys.original(content * 64)},
            Kept.PAGE_IMAGES: {
                keys.rendered_page(job_id, chunk.id, 1, 200, Profile.BALANCED),
                f"jobs/{job_id}/images/000001-72.png",
            },
            Kept.SEGMENTS: {keys.segment(job_id, chunk.id, 1, 0), keys.segment(job_id, chunk.id, 2, 0)},
            Kept.RESULTS: {keys.bound_pages(job_id, 3), keys.result(job_id, 4, "document.txt")},
        }
        for key in set().union(*made.values()):
            self.objects.put(key, b"0123456789", media_type="text/plain")
        return job_id, made

    def expire(self, *, objects=None, **ages):
        return Expire(
            rows=self.rows.kept(**ages),
            objects=objects or self.objects,
            at_once=2,
            uploads_age=timedelta(days=7),
            now=lambda: datetime.now(UTC),
        )

    def stored(self):
        return {item.key for item in self.objects.listing("")}

    def expired_events(self, job_id):
        events = self.rows.sql("SELECT detail FROM event WHERE job_id = :id AND kind = 'job.expired'", id=job_id)
        return [event.detail for event in events]


@pytest.fixture
def archive(rows, objects):
    return Archive(rows, objects)


def exhaust(expire):
    while expire():
        pass


@pytest.mark.parametrize("what", list(MARKS))
def test_each_goes_at_its_own_age_and_nothing_else_does(archive, what):
    old, of_old = archive.job(days=31, content="a")
    _, of_young = archive.job(days=29, content="b")
    exhaust(archive.expire(**{what.value: AGE}))
    expected = [keys for kind, keys in of_old.items() if kind is not what] + list(of_young.values())
    assert archive.stored() == set().union(*expected)
    marked = archive.rows.sql(f"SELECT id FROM job WHERE {MARKS[what]} IS NOT NULL")
    assert [row.id for row in marked] == [old]
    size = len(of_old[what])
    assert archive.expired_events(old) == [{"what": what.value, "objects": size, "bytes": 10 * size}]


def test_rows_go_with_all_that_is_left_and_the_trail_says_so(archive):
    old, _ = archive.job(days=31, content="a")
    young, of_young = archive.job(days=29, content="b")
    exhaust(archive.expire(rows=AGE))
    assert archive.stored() == set().union(*of_young.values())
    for table in ("page", "chunk"):
        assert {row.job_id for row in archive.rows.sql(f"SELECT job_id FROM {table}")} == {young}
    trail = [row.kind for row in archive.rows.sql("SELECT kind FROM event WHERE job_id = :id ORDER BY id", id=old)]
    assert (trail[0], trail[-2:]) == ("job.submitted", ["job.succeeded", "job.expired"])
    assert not [kind for kind in trail if kind.startswith("chunk.")]
    assert archive.expired_events(old) == [{"what": "rows", "objects": 7, "bytes": 70}]


def test_an_original_goes_with_the_last_job_that_needs_it(archive):
    _, of_first = archive.job(days=31)
    second, _ = archive.job(days=29)
    [original] = of_first[Kept.ORIGINALS]
    exhaust(archive.expire(originals=AGE))
    assert original in archive.stored()
    archive.rows.sql("UPDATE job SET finished_at = finished_at - interval '5 d' WHERE id = :id", id=second)
    exhaust(archive.expire(originals=AGE))
    assert original not in archive.stored()
    assert archive.expired_events(second) == [{"what": "originals", "objects": 1, "bytes": 10}]


def test_a_job_that_has_not_ended_needs_its_original(archive):
    _, of_ended = archive.job(days=31)
    waiting = archive.rows.ingested()
    assert archive.rows.sql("SELECT sha256 FROM job WHERE id = :id", id=waiting) == [("a" * 64,)]
    exhaust(archive.expire(**ALL))
    assert archive.stored() == of_ended[Kept.ORIGINALS]


def test_nobody_takes_an_original_up_while_it_goes(archive):
    job_id, _ = archive.job(days=31)
    other = archive.rows.submitted()
    retention = archive.rows.kept(originals=AGE)
    [expired] = retention.expired(Kept.ORIGINALS, 1)
    assert expired.job_id == job_id
    take_up = f"SET LOCAL lock_timeout = '50ms'; UPDATE job SET sha256 = '{expired.sha256}' WHERE id = '{other}'"
    with retention.holding(expired) as hold:
        assert hold.original_is_free
        with pytest.raises(Transient, match="lock timeout"):
            archive.rows.sql(take_up)
    archive.rows.sql(take_up)


def test_a_tenants_own_ages_go_first(archive):
    archive.rows.control.set_tenant("museum", ages={Kept.RESULTS: timedelta(days=60), Kept.SEGMENTS: timedelta(days=1)})
    _, of_museum = archive.job(days=31, tenant="museum", content="a")
    _, of_other = archive.job(days=31, tenant="library", content="b")
    exhaust(archive.expire(results=AGE))
    gone = of_museum[Kept.SEGMENTS] | of_other[Kept.RESULTS]
    assert archive.stored() == set().union(*of_museum.values(), *of_other.values()) - gone


def test_without_an_age_everything_stays(archive):
    archive.job(days=10_000)
    before = archive.stored()
    assert archive.expire()() == 0
    assert archive.stored() == before


def test_a_job_that_was_begun_again_is_left_alone(archive):
    job_id, _ = archive.job(days=31)
    before = archive.stored()
    retention = archive.rows.kept(**ALL)
    due = {what: retention.expired(what, 1) for what in Kept}
    assert archive.rows.retry([job_id], from_the_beginning=True) == [job_id]
    for [expired] in due.values():
        with retention.holding(expired) as hold:
            assert hold is None
    exhaust(archive.expire(**ALL))
    assert archive.stored() == before


def test_what_another_dispatcher_removes_is_passed_over(archive):
    archive.job(days=31)
    retention = archive.rows.kept(segments=AGE)
    [expired] = retention.expired(Kept.SEGMENTS, 1)
    with retention.holding(expired) as hold:
        assert hold is not None
        assert archive.expire(segments=AGE)() == 0
    assert archive.expire(segments=AGE)() == 1


def test_rows_say_nothing_while_the_store_is_away(archive, objects):
    job_id, _ = archive.job(days=31)
    away = S3Objects(objects.model_copy(update={"endpoint": "127.0.0.1:9"}))
    with pytest.raises(Transient):
        archive.expire(objects=away, segments=AGE)()
    assert archive.rows.sql("SELECT segments_removed_at FROM job") == [(None,)]
    assert archive.expired_events(job_id) == []


def test_uploads_go_when_they_are_old_and_no_open_job_names_them(archive):
    for name in ("wanted", "rejected", "nobodys"):
        archive.objects.put(f"uploads/{name}", b"%PDF", media_type="application/pdf")
    archive.rows.sql("INSERT INTO job (upload_key) VALUES ('uploads/wanted')")
    archive.rows.sql(
        "INSERT INTO job (upload_key, state, error_code, finished_at)"
        " VALUES ('uploads/rejected', 'rejected', 'queue_full', now())"
    )
    exhaust(archive.expire())
    assert len(archive.stored()) == 3
    later = Expire(
        rows=archive.rows.kept(),
        objects=archive.objects,
        at_once=2,
        uploads_age=timedelta(days=7),
        now=lambda: datetime.now(UTC) + timedelta(days=8),
    )
    assert [item.key for item in later.left_behind()] == ["uploads/nobodys", "uploads/rejected"]
    exhaust(later)
    assert archive.stored() == {"uploads/wanted"}


def test_devices_that_nobody_heard_of_are_forgotten(archive):
    for name, drained in (("gone", False), ("drained", True), ("there", False)):
        archive.rows.sql(
            "INSERT INTO device (id, host, name, kind, lanes, drain_requested)"
            " VALUES (:id, 'here', :id, 'cpu', '[]', :drained)",
            id=name,
            drained=drained,
        )
    archive.rows.sql("ALTER TABLE device DISABLE TRIGGER device_touch")
    archive.rows.sql("UPDATE device SET updated_at = now() - interval '8 d' WHERE id <> 'there'")
    assert archive.rows.retention.forget_devices() == 1
    assert {row.id for row in archive.rows.sql("SELECT id FROM device")} == {"drained", "there"}


def test_a_retry_without_segments_begins_at_the_beginning(archive):
    job_id, _ = archive.job(days=31)
    archive.rows.sql("UPDATE job SET state = 'partial', error_code = 'some_pages_failed'")
    exhaust(archive.expire(segments=AGE))
    assert archive.rows.retry([job_id]) == [job_id]
    assert archive.rows.state("job", job_id) == JobState.SUBMITTED
    assert archive.rows.sql("SELECT segments_removed_at FROM job") == [(None,)]


def test_a_retry_that_could_only_lose_what_is_left_is_refused(archive):
    job_id, _ = archive.job(days=31)
    archive.rows.sql("UPDATE job SET source_uri = NULL, upload_key = 'uploads/gone'")
    exhaust(archive.expire(segments=AGE, originals=AGE))
    assert archive.rows.retry([job_id], from_the_beginning=True) == []
    assert archive.rows.state("job", job_id) == JobState.SUCCEEDED


# --- the command


def with_ages(environment, **ages):
    return {**environment, **{f"MUNIMENT_RETENTION__{what.upper()}": str(days * 86400) for what, days in ages.items()}}


def muniment(environment, *arguments):
    command = [sys.executable, "-m", "pipeline.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_dry_run_names_exactly_what_goes_then(archive, environment):
    archive.job(days=31, content="a")
    archive.job(days=8, content="a")
    archive.job(days=31, content="b", tenant="museum")
    archive.job(days=61, content="c")
    variables = with_ages(environment, originals=30, page_images=7, segments=30, results=30, rows=60)
    before = archive.stored()
    lines = [json.loads(line) for line in muniment(variables, "retention", "--dry-run", "--json").splitlines()]
    assert archive.stored() == before
    assert "museum: segments of 1 jobs, 2 objects, 20 bytes" in muniment(variables, "retention", "--dry-run")
    said = [item["key"] for line in lines for item in line["objects"]]
    assert len(said) == len(set(said))
    assert muniment(variables, "retention").startswith("removed something of ")
    assert before - archive.stored() == set(said)
    assert muniment(variables, "retention", "--dry-run") == "nothing is due\n"
    went = {line["job_id"] for line in lines if line["what"] == "rows"}
    assert len(went) == 1
    assert went.isdisjoint(str(row.id) for row in archive.rows.sql("SELECT id FROM job"))


def test_ages_are_set_and_shown_by_command(archive, environment):
    muniment(environment, "tenants", "set", "museum", "--keep-results", "3650d", "--keep-segments", "12h")
    muniment(environment, "tenants", "set", "museum", "--keep-segments", "default")
    [tenant] = [json.loads(line) for line in muniment(environment, "tenants", "--json").splitlines()]
    assert tenant["ages"] == {
        "originals": None,
        "page_images": None,
        "segments": None,
        "results": 3650 * 86400.0,
        "rows": None,
    }
