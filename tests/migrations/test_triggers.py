"""What the database does by itself when a row comes or moves: defaults, the trail, the dispatcher's bell."""

import psycopg
import pytest


def insert(owner: psycopg.Connection, source: str = "s3://box/1.pdf") -> str:
    (job,) = owner.execute("INSERT INTO job (source_uri) VALUES (%s) RETURNING id", [source]).fetchone() or ()
    return str(job)


def heard(owner: psycopg.Connection) -> list[str]:
    """Return what was said on the channel since the last call; NOTIFY arrives with the end of its transaction."""
    return [notification.payload for notification in owner.notifies(timeout=0)]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("s3://archive/box-17/0001.pdf", "0001.pdf"),
        ("file:///scans/a ledger.tif", "a ledger.tif"),
        ("https://host/letters.pdf?page=2/3", "letters.pdf"),
        ("s3://archive/folder/", "s3://archive/folder/"),
        ("bare", "bare"),
    ],
)
def test_a_job_without_a_name_is_called_after_its_source(owner: psycopg.Connection, source: str, name: str) -> None:
    job = insert(owner, source)
    assert owner.execute("SELECT source_name FROM job WHERE id = %s", [job]).fetchone() == (name,)


def test_a_row_from_the_owner_belongs_to_the_default_tenant(owner: psycopg.Connection) -> None:
    insert(owner)
    assert owner.execute("SELECT tenant, state, options, priority FROM job").fetchone() == (
        "default",
        "submitted",
        {},
        0,
    )


def test_what_is_given_is_kept(owner: psycopg.Connection) -> None:
    owner.execute("INSERT INTO job (source_uri, source_name, tenant) VALUES ('s3://box/1.pdf', 'a deed', 'museum')")
    assert owner.execute("SELECT tenant, source_name FROM job").fetchone() == ("museum", "a deed")


def test_every_move_leaves_an_event_with_who_made_it(owner: psycopg.Connection) -> None:
    owner.execute("SET application_name = 'a person'")
    job = insert(owner)
    owner.execute("UPDATE job SET state = 'planning', attempt = 1 WHERE id = %s", [job])
    owner.execute("UPDATE job SET priority = 7 WHERE id = %s", [job])
    error = "state = 'rejected', error_code = 'damaged', error_detail = 'secret words', finished_at = now()"
    owner.execute(f"UPDATE job SET {error} WHERE id = %s", [job])
    assert owner.execute("SELECT kind, actor, detail FROM event ORDER BY id").fetchall() == [
        ("job.submitted", "a person", {"attempt": 0}),
        ("job.planning", "a person", {"from": "submitted", "attempt": 1}),
        ("job.control", "a person", {"priority": 7}),
        ("job.rejected", "a person", {"from": "planning", "attempt": 1, "error_code": "damaged"}),
    ]


def test_chunks_leave_events_with_their_pages(owner: psycopg.Connection) -> None:
    job = insert(owner)
    owner.execute(
        "INSERT INTO chunk (id, job_id, ordinal, first_page, last_page, lane, cost_ms)"
        " VALUES (gen_random_uuid(), %s, 0, 3, 9, 'cpu', 1)",
        [job],
    )
    assert owner.execute("SELECT kind, detail FROM event WHERE chunk_id IS NOT NULL").fetchall() == [
        ("chunk.ready", {"attempt": 0, "first_page": 3, "last_page": 9})
    ]


def test_the_bell_rings_for_what_the_dispatcher_has_to_do(owner: psycopg.Connection) -> None:
    owner.execute("LISTEN muniment")
    job = insert(owner)
    assert heard(owner) == ["submitted"]
    for change in (
        "cancel_requested = true",
        "paused = true",
        "priority = 5",
        "deadline = now()",
        "hours = '01:00-02:00'",
    ):
        owner.execute(f"UPDATE job SET {change} WHERE id = %s", [job])
        assert heard(owner) == ["control"], change
    owner.execute("UPDATE job SET state = 'planning' WHERE id = %s", [job])
    assert heard(owner) == []


def test_a_changed_row_says_when(owner: psycopg.Connection) -> None:
    job = insert(owner)
    owner.execute("UPDATE job SET priority = 1 WHERE id = %s", [job])
    assert owner.execute("SELECT updated_at > created_at FROM job").fetchone() == (True,)


def test_a_removed_job_takes_all_that_belongs_to_it_along_but_its_trail(owner: psycopg.Connection) -> None:
    job = insert(owner)
    owner.execute("INSERT INTO page (job_id, number, class) VALUES (%s, 1, 'scan')", [job])
    owner.execute("DELETE FROM job WHERE id = %s", [job])
    assert owner.execute("SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM event)").fetchone() == (0, 1)


def test_what_is_done_to_keys_and_devices_is_on_the_trail(owner: psycopg.Connection) -> None:
    owner.execute(
        "INSERT INTO api_key (id, tenant, name, secret_sha256, scopes)"
        " VALUES ('k1', 'museum', 'desk', repeat('0', 64), '[\"read\"]')"
    )
    owner.execute("UPDATE api_key SET last_used_at = now()")
    owner.execute("UPDATE api_key SET revoked_at = now()")
    owner.execute("INSERT INTO device (id, host, name, kind, lanes) VALUES ('h/cpu:0', 'h', 'cpu:0', 'cpu', '[]')")
    owner.execute("UPDATE device SET drain_requested = true")
    assert owner.execute("SELECT kind, detail FROM event WHERE job_id IS NULL ORDER BY id").fetchall() == [
        ("key.created", {"key": "k1", "tenant": "museum"}),
        ("key.revoked", {"key": "k1", "tenant": "museum"}),
        ("device.drained", {"device": "h/cpu:0"}),
    ]


def test_pages_are_counted_by_day_and_stay_counted(owner: psycopg.Connection) -> None:
    job = insert(owner)
    owner.execute("UPDATE job SET page_count = 12, api_key_id = 'k1' WHERE id = %s", [job])
    owner.execute("UPDATE job SET page_count = 12 WHERE id = %s", [job])
    owner.execute("DELETE FROM job")
    counted = owner.execute("SELECT tenant, api_key_id, documents, pages FROM usage").fetchall()
    assert counted == [("default", "k1", 1, 12)]


def test_jobs_take_over_what_stands_on_their_batch_and_follow_its_changes(owner: psycopg.Connection) -> None:
    owner.execute("INSERT INTO batch (tenant, label, paused, priority) VALUES ('default', 'box-17', true, 7)")
    owner.execute("INSERT INTO job (source_uri, label) VALUES ('s3://box/1.pdf', 'box-17')")
    owner.execute("INSERT INTO job (source_uri, label, tenant) VALUES ('s3://box/2.pdf', 'box-17', 'museum')")
    seen = "SELECT tenant, paused, priority, hours FROM job ORDER BY source_uri"
    assert owner.execute(seen).fetchall() == [("default", True, 7, None), ("museum", False, 0, None)]
    owner.execute("UPDATE batch SET paused = false, hours = '20:00-06:00' WHERE tenant = 'default'")
    assert owner.execute(seen).fetchall() == [("default", False, 7, "20:00-06:00"), ("museum", False, 0, None)]
    assert owner.execute("SELECT tenant, label FROM batch ORDER BY tenant").fetchall() == [
        ("default", "box-17"),
        ("museum", "box-17"),
    ]


@pytest.mark.parametrize(
    ("hours", "at", "within"),
    [
        ("20:00-06:00", "2026-03-01 19:59:59Z", False),
        ("20:00-06:00", "2026-03-01 20:00Z", True),
        ("20:00-06:00", "2026-03-01 05:59:59Z", True),
        ("20:00-06:00", "2026-03-01 06:00Z", False),
        ("09:00-17:30", "2026-03-01 17:29Z", True),
        ("09:00-17:30", "2026-03-01 08:59Z", False),
        ("00:00-00:00", "2026-03-01 12:00Z", True),
        ("20:00-06:00 Asia/Shanghai", "2026-03-01 12:00Z", True),
        ("20:00-06:00 Asia/Shanghai", "2026-03-01 22:00Z", False),
        # Summer time: 06:00 in Zurich is 04:00 UTC in July and 05:00 in January.
        ("20:00-06:00 Europe/Zurich", "2026-07-01 04:30Z", False),
        ("20:00-06:00 Europe/Zurich", "2026-01-01 04:30Z", True),
        (None, "2026-01-01 04:30Z", True),
    ],
)
def test_hours_are_read_in_their_zone_and_may_pass_midnight(
    owner: psycopg.Connection, hours: str | None, at: str, within: bool
) -> None:
    assert owner.execute("SELECT muniment_within(%s, %s::timestamptz)", [hours, at]).fetchone() == (within,)


def test_a_zone_that_does_not_exist_is_refused_with_the_row(owner: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="Nowhere"):
        owner.execute("INSERT INTO job (source_uri, hours) VALUES ('s3://box/1.pdf', '20:00-06:00 Nowhere')")


def test_a_tenants_queued_pages_are_counted_from_planning_to_the_end(owner: psycopg.Connection) -> None:
    job = insert(owner)

    def queued() -> int:
        (pages,) = owner.execute("SELECT queued_pages FROM tenant WHERE name = 'default'").fetchone() or (None,)
        return int(pages)

    assert queued() == 0
    owner.execute("UPDATE job SET state = 'running', page_count = 12 WHERE id = %s", [job])
    assert queued() == 12
    owner.execute("UPDATE job SET state = 'merging' WHERE id = %s", [job])
    assert queued() == 12
    owner.execute("UPDATE job SET state = 'succeeded', finished_at = now() WHERE id = %s", [job])
    assert queued() == 0
    owner.execute("UPDATE job SET state = 'running', finished_at = NULL WHERE id = %s", [job])
    owner.execute("DELETE FROM job WHERE id = %s", [job])
    assert queued() == 0
