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
    for change in ("cancel_requested = true", "paused = true", "priority = 5", "deadline = now()"):
        owner.execute(f"UPDATE job SET {change} WHERE id = %s", [job])
        assert heard(owner) == ["control"], change
    owner.execute("UPDATE job SET state = 'planning' WHERE id = %s", [job])
    assert heard(owner) == []


def test_a_changed_row_says_when(owner: psycopg.Connection) -> None:
    job = insert(owner)
    owner.execute("UPDATE job SET priority = 1 WHERE id = %s", [job])
    assert owner.execute("SELECT updated_at > created_at FROM job").fetchone() == (True,)


def test_a_removed_job_takes_all_that_belongs_to_it_along(owner: psycopg.Connection) -> None:
    job = insert(owner)
    owner.execute("INSERT INTO page (job_id, number, class) VALUES (%s, 1, 'scan')", [job])
    owner.execute("DELETE FROM job WHERE id = %s", [job])
    assert owner.execute("SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM event)").fetchone() == (0, 0)
