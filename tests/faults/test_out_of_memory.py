"""The engine takes all the memory that it may have. Where the kernel kills it for that, see `test_runner_killed`."""

from pipeline.domain.states import JobState
from tests.system import scan


def test_a_page_that_exhausts_memory_is_set_apart_and_its_process_replaced(system, tmp_path):
    system.simulate(faults={"3": "exhaust"})
    system.start()
    job_id = system.submit(scan(tmp_path, 5))
    status = system.finished(job_id)
    assert (status.state, status.outcomes) == (JobState.PARTIAL, {"recognised": 4, "failed": 1})
    failed = [(page.number, page.error_code) for page in system.rows.ledger.pages(job_id) if page.error_code]
    assert failed == [(3, "out_of_memory")]
    system.assert_whole(job_id, 5)
    # What is bounded that tightly reads no other page: each failed attempt ended its process.
    failures = system.attempts().count(("failed", "out_of_memory"))
    assert system.log("cpu0").count("runner_started") == 1 + failures
    assert system.processes["cpu0"].poll() is None
