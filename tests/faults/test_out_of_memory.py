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


def test_a_page_for_which_there_is_no_memory_is_read_smaller_in_the_same_attempt(system, tmp_path):
    system.environment["MUNIMENT_LIMITS__DPI"] = "72"
    system.simulate(sizes={"2000x1600": "memory"})
    system.start()
    job_id = system.submit(scan(tmp_path, 3, size=(2000, 1600)))
    assert system.finished(job_id).state is JobState.SUCCEEDED
    assert system.attempts() == [("done", None)]
    assert system.log("cpu0").count("runner_started") == 1
    pages = system.document(job_id)["pages"]
    assert [[flag["name"] for flag in page["flags"]] for page in pages] == [["read_smaller"]] * 3
    system.assert_whole(job_id, 3)


def test_a_page_that_an_engine_has_no_memory_for_is_read_by_the_other_one(system, tmp_path):
    system.environment["MUNIMENT_DEVICES__OTHER_ENGINE__SIMULATED"] = "rapidocr"
    system.simulate(faults={"2": "memory"})
    system.start()
    job_id = system.submit(scan(tmp_path, 3))
    assert system.finished(job_id, within=200).state is JobState.SUCCEEDED
    engines = system.rows.sql("SELECT number, engine FROM page ORDER BY number")
    assert [tuple(row) for row in engines] == [(1, "simulated"), (2, "rapidocr"), (3, "simulated")]
    [changed] = system.rows.sql("SELECT detail FROM event WHERE kind = 'chunk.engine_changed'")
    assert (changed.detail["engine"], changed.detail["code"]) == ("rapidocr", "out_of_memory")
