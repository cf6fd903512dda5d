"""A short document of one tenant is not behind a long one of another: counted in chunks, so that no clock matters."""

from pipeline.domain.states import JobState
from tests.system import scan

BEGUN_BETWEEN = """
    SELECT count(*) FROM event AS other WHERE other.job_id = :long AND other.kind = 'chunk.running'
        AND other.id > (SELECT min(id) FROM event WHERE job_id = :short AND kind = 'chunk.ready')
        AND other.id < (SELECT max(id) FROM event WHERE job_id = :short AND kind = 'chunk.running')
"""


def begun_between(system, long, short):
    """Count the chunks of the long document that began while chunks of the short one were waiting."""
    return system.rows.sql(BEGUN_BETWEEN, long=long, short=short)[0].count


def test_ten_pages_go_beside_two_hundred_of_another_tenant(system, tmp_path):
    system.environment["MUNIMENT_CHUNKS__SHORT_JOB"] = "PT0.001S"
    system.simulate(page_ms=30)
    system.start(slots=2)
    long = system.submit(scan(tmp_path, 200, name="long.pdf"), tenant="many")
    system.pages_done(long, 10)
    short = system.submit(scan(tmp_path, 10, name="short.pdf"), tenant="few")
    assert system.finished(short).state is JobState.SUCCEEDED
    # What is on its way already goes first, then the tenants take turns: two chunks of each slot, and one for each.
    assert begun_between(system, long, short) <= 7
    assert system.status(long).state is JobState.RUNNING
    system.rows.cancel([long])
    assert system.finished(long).state is JobState.CANCELLED


def test_a_page_waits_for_one_chunk_of_a_long_document_of_the_same_tenant(system, tmp_path):
    system.simulate(page_ms=30)
    system.start(slots=1)
    long = system.submit(scan(tmp_path, 100, name="long.pdf"))
    system.pages_done(long, 10)
    short = system.submit(scan(tmp_path, 1, name="short.pdf"))
    assert system.finished(short).state is JobState.SUCCEEDED
    # The chunk that is in work when it comes is not counted; the next may just have been taken.
    assert begun_between(system, long, short) <= 1
    system.rows.cancel([long])
    assert system.finished(long).state is JobState.CANCELLED
