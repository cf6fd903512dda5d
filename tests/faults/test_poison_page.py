"""A page that kills its process each time, or fails each time: it alone ends as failed."""

from pipeline.domain.states import JobState
from tests.system import scan


def test_a_page_that_kills_its_process_is_set_apart_and_the_others_are_read(system, tmp_path):
    system.simulate(faults={"7": "kill"})
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 10))
    innocent = system.submit(scan(tmp_path, 3, name="innocent.pdf"))
    status = system.finished(job_id)
    assert (status.state, status.error_code) == (JobState.PARTIAL, "some_pages_failed")
    assert status.outcomes == {"recognised": 9, "failed": 1}
    [poison] = [page for page in system.rows.ledger.pages(job_id) if page.error_code]
    assert (poison.number, poison.error_code) == (7, "process_died")
    system.assert_whole(job_id, 10)
    assert system.finished(innocent).state is JobState.SUCCEEDED


def test_a_page_that_fails_costs_that_page(system, tmp_path):
    system.simulate(faults={"3": "fail"})
    system.start()
    job_id = system.submit(scan(tmp_path, 5))
    assert system.finished(job_id).state is JobState.PARTIAL
    failed = [(page.number, page.error_code) for page in system.rows.ledger.pages(job_id) if page.error_code]
    assert failed == [(3, "engine_failed")]
    system.assert_whole(job_id, 5)
