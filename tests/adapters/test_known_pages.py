"""Pages that were read, in real rows: who finds them, for how long, and what goes with them."""

from dataclasses import replace
from datetime import timedelta

from pipeline.adapters.chunks import PostgresChunkMoves
from pipeline.adapters.removals import PostgresRemovals
from pipeline.adapters.retention import PostgresRetention
from pipeline.domain.recognition import PageSource
from pipeline.domain.retention import Ages, Kept
from pipeline.ports.chunks import KnownPage
from pipeline.ports.retention import Removed
from tests.rows import LEASE, entry

LOOK, OTHER = "a" * 64, "b" * 64


def read(rows, *looks, **more):
    """Insert a job whose pages look like this and are read; return it and its chunk."""
    job_id, [chunk] = rows.claimed(len(looks), **more)
    pages = [
        replace(entry(number, segment_key=f"jobs/{job_id}/{number}"), digest=look)
        for number, look in enumerate(looks, 1)
    ]
    rows.chunks.record(chunk.claim, pages)
    return job_id, chunk


def asking(rows, **more):
    """Return what a chunk of another job finds by a digest."""
    _, [chunk] = rows.claimed(1, **more)
    return lambda digest: rows.chunks.known_page(chunk.claim, digest)


def test_a_page_is_found_by_later_jobs_of_its_tenant_by_what_it_looks_like(rows):
    job_id, _ = read(rows, LOOK, None)
    find = asking(rows)
    assert find(LOOK) == KnownPage(job_id=job_id, number=1, segment_key=f"jobs/{job_id}/1")
    assert find(OTHER) is None


def test_no_other_tenant_finds_it(rows):
    read(rows, LOOK, tenant="museum")
    assert asking(rows, tenant="library")(LOOK) is None
    own, _ = read(rows, LOOK, tenant="library")
    assert asking(rows, tenant="library")(LOOK).job_id == own
    assert asking(rows, tenant="museum")(LOOK).job_id != own


def test_of_pages_that_look_alike_the_one_read_last_is_known(rows):
    read(rows, LOOK)
    job_id, _ = read(rows, LOOK, LOOK)
    assert (asking(rows)(LOOK).job_id, asking(rows)(LOOK).number) == (job_id, 2)


def test_with_its_job_it_is_forgotten(rows):
    job_id, _ = read(rows, LOOK)
    find = asking(rows)
    rows.sql("UPDATE job SET state = 'failed', error_code = 'internal', finished_at = now() WHERE id = :id", id=job_id)
    assert PostgresRemovals(rows.engine).remove(job_id) is not None
    assert find(LOOK) is None
    assert rows.sql("SELECT * FROM known_page") == []


def test_with_its_segments_it_is_forgotten(rows):
    job_id = rows.ended(1)
    rows.sql("INSERT INTO known_page VALUES ('default', :look, :id, 1)", look=LOOK, id=job_id)
    find = asking(rows)
    assert find(LOOK) is not None
    rows.sql("UPDATE job SET finished_at = now() - interval '2 days' WHERE id = :id", id=job_id)
    retention = PostgresRetention(rows.engine, Ages(segments=timedelta(days=1)), devices_age=timedelta(days=7))
    [expired] = retention.expired(Kept.SEGMENTS, 10)
    with retention.holding(expired) as hold:
        hold.done(Removed(objects=1, size_bytes=1))
    assert (find(LOOK), rows.sql("SELECT * FROM known_page")) == (None, [])


def test_what_is_read_from_the_beginning_is_found_again_only_when_it_has_been(rows):
    job_id = rows.ended(1)
    rows.sql("INSERT INTO known_page VALUES ('default', :look, :id, 1)", look=LOOK, id=job_id)
    assert rows.retry([job_id], from_the_beginning=True) == [job_id]
    assert asking(rows)(LOOK) is None


def test_it_is_known_for_so_long_and_then_swept(rows):
    read(rows, LOOK, OTHER)
    rows.sql("UPDATE known_page SET read_at = now() - interval '3 days' WHERE digest = :look", look=LOOK)
    _, [chunk] = rows.claimed(1)
    moves = PostgresChunkMoves(rows.engine, owner="worker/1", lease=LEASE, pages_known_for=timedelta(days=2))
    assert moves.known_page(chunk.claim, LOOK) is None
    assert moves.known_page(chunk.claim, OTHER) is not None
    swept = PostgresRetention(
        rows.engine, Ages(), devices_age=timedelta(days=7), known_pages_age=timedelta(days=2)
    ).forget_known_pages
    assert (swept(), swept()) == (1, 0)
    assert [row.digest for row in rows.sql("SELECT digest FROM known_page")] == [OTHER]


def test_a_page_that_was_taken_over_counts_as_any_other_and_says_from_where(rows):
    source, _ = read(rows, LOOK)
    job_id, [chunk] = rows.claimed(2)
    taken = replace(entry(1), source=PageSource(job_id=source, number=1))
    rows.chunks.record(chunk.claim, [taken, entry(2)])
    ledger = rows.sql("SELECT outcome, reused_job, reused_page FROM page WHERE job_id = :id ORDER BY number", id=job_id)
    assert [tuple(row) for row in ledger] == [("recognised", source, 1), ("recognised", None, None)]
    assert rows.sql("SELECT pages_done FROM chunk_attempt WHERE chunk_id = :id", id=chunk.claim.chunk_id)[0][0] == 2
