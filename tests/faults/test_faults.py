"""Faults of the queue, the workers and the engine; each test ends with the same question: is every page there once?"""

import psycopg
import pytest
import redis

from pipeline.domain.document import Lane
from pipeline.domain.states import ChunkState, JobState, Step
from pipeline.ports.dispatch import DueChunk, DueJob
from tests.system import scan
from tests.waiting import eventually
from workers.app import create_app
from workers.chains import CeleryChains


def broker(system):
    return redis.Redis.from_url(system.settings.broker.url.get_secret_value())


def test_a_broker_that_forgets_everything_costs_nothing(system, tmp_path):
    system.simulate(page_ms=60)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 50))
    for pages in (8, 20, 32):
        system.pages_done(job_id, pages)
        broker(system).flushdb()
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 50)


def test_a_worker_killed_in_the_middle_is_made_up_for(system, tmp_path):
    system.simulate(page_ms=60)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 50))
    system.pages_done(job_id, 10)
    system.kill("cpu0")
    system.spawn_slot(0)
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 50)
    # Nothing outlives a worker that was killed.
    eventually(lambda: len(system.runner_pids()) == 2)


def test_a_runner_killed_in_the_middle_costs_one_attempt_and_no_finished_page(system, tmp_path):
    system.simulate(faults={"9": "kill_once"}, folder=str(tmp_path))
    system.start()
    job_id = system.submit(scan(tmp_path, 15))
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 15)
    attempts = system.rows.sql("SELECT outcome, error_code, pages_done FROM chunk_attempt ORDER BY started_at")
    assert [(row.outcome, row.error_code) for row in attempts if row.outcome != "done"] == [("failed", "process_died")]
    assert sum(row.pages_done for row in attempts) == 15


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


@pytest.mark.parametrize(("fault", "code"), [("fail", "engine_failed"), ("memory", "out_of_memory")])
def test_a_page_that_fails_costs_that_page(system, tmp_path, fault, code):
    system.simulate(faults={"3": fault})
    system.start()
    job_id = system.submit(scan(tmp_path, 5))
    assert system.finished(job_id).state is JobState.PARTIAL
    failed = [(page.number, page.error_code) for page in system.rows.ledger.pages(job_id) if page.error_code]
    assert failed == [(3, code)]
    system.assert_whole(job_id, 5)


def test_a_runner_that_hangs_is_killed_and_the_page_set_apart(system, tmp_path):
    system.environment["MUNIMENT_LEASES__STALL"] = "PT3S"
    system.simulate(faults={"2": "hang"})
    system.start()
    job_id = system.submit(scan(tmp_path, 4))
    assert system.finished(job_id).outcomes == {"recognised": 3, "failed": 1}
    failed = [(page.number, page.error_code) for page in system.rows.ledger.pages(job_id) if page.error_code]
    assert failed == [(2, "stalled")]
    system.assert_whole(job_id, 4)


def test_a_worker_asked_to_stop_does_so_at_a_page_border_and_nothing_is_counted(system, tmp_path):
    gate = tmp_path / "gate"
    system.simulate(gate=str(gate))
    system.start()
    job_id = system.submit(scan(tmp_path, 20))
    eventually(lambda: system.rows.sql("SELECT 1 FROM chunk WHERE state = 'running'"))
    process = system.processes.pop("cpu0")
    process.terminate()
    eventually(lambda: "runner_asked_to_stop" in system.log("cpu0"))
    gate.touch()
    assert process.wait(60) == 0
    [drained] = system.rows.sql("SELECT pages_done FROM chunk_attempt WHERE outcome = 'drained'")
    assert drained.pages_done < 5
    system.spawn_slot(0)
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 20)
    assert [tuple(row) for row in system.rows.sql("SELECT DISTINCT failures, lost FROM chunk")] == [(0, 0)]
    assert system.rows.sql("SELECT sum(pages_done) AS pages FROM chunk_attempt")[0].pages == 20


def test_a_running_job_that_is_cancelled_stops_at_its_next_page_and_never_merges(system, tmp_path):
    gate = tmp_path / "gate"
    system.simulate(gate=str(gate))
    system.start()
    job_id = system.submit(scan(tmp_path, 20))
    eventually(lambda: system.rows.sql("SELECT 1 FROM chunk WHERE state = 'running'"))
    system.rows.cancel([job_id])
    gate.touch()
    assert system.finished(job_id).state is JobState.CANCELLED
    assert system.status(job_id).pages_done < 20
    assert system.rows.sql("SELECT 1 FROM event WHERE kind = 'job.merging'") == []
    states = {row.state for row in system.rows.sql("SELECT state FROM chunk")}
    assert states <= {ChunkState.CANCELLED, ChunkState.DONE}
    # The slot is free for others at once.
    other = system.submit(scan(tmp_path, 1, name="other.pdf"))
    assert system.finished(other).state is JobState.SUCCEEDED


def test_messages_that_come_twice_and_late_do_nothing(system, tmp_path):
    system.simulate(page_ms=50)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 20))
    system.pages_done(job_id, 4)
    chains = CeleryChains(create_app(system.settings))
    for row in system.rows.sql("SELECT id, job_id, lane FROM chunk"):
        for attempt in (1, 1, 2):
            chains.send_chunk(DueChunk(chunk_id=row.id, job_id=row.job_id, lane=Lane(row.lane), attempt=attempt))
    for step in (Step.INGEST, Step.SPLIT, Step.MERGE, Step.EXPORT):
        chains.send_job(DueJob(job_id=job_id, step=step, attempt=1))
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 20)
    attempts = system.rows.sql("SELECT chunk_id, count(*) FROM chunk_attempt GROUP BY chunk_id")
    assert {row.count for row in attempts} == {1}


def test_two_dispatchers_one_of_them_killed_send_everything_once(system, tmp_path):
    system.simulate(page_ms=30)
    system.start(slots=2, dispatchers=2)
    jobs = [system.submit(scan(tmp_path, 6, name=f"{number}.pdf")) for number in range(4)]
    system.pages_done(jobs[0], 1)
    system.kill("dispatcher0")
    for job_id in jobs:
        assert system.finished(job_id).state is JobState.SUCCEEDED
        system.assert_whole(job_id, 6)
    attempts = system.rows.sql("SELECT chunk_id, count(*) FROM chunk_attempt GROUP BY chunk_id")
    assert {row.count for row in attempts} == {1}


def test_connections_to_the_database_that_are_cut_are_made_again(system, tmp_path):
    system.simulate(page_ms=60)
    system.start(slots=2)
    job_id = system.submit(scan(tmp_path, 30))
    url = system.settings.database.url.get_secret_value().replace("+psycopg", "")
    for pages in (4, 12, 20):
        system.pages_done(job_id, pages)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name LIKE 'muniment%'"
            )
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 30)


def test_a_second_worker_for_the_same_device_refuses_and_names_the_holder(system):
    system.start()
    first = system.processes["cpu0"]
    eventually(system.rows.admissions.live_devices)
    second = system.spawn("again", "workers.worker", "--device", "cpu:0")
    assert second.wait(60) == 4
    assert f"held by process {first.pid}" in system.log("again")


def test_a_runner_that_outgrows_its_bound_is_replaced_between_chunks(system, tmp_path):
    system.environment["MUNIMENT_DEVICES__MAX_RUNNER_BYTES"] = "1"
    system.start()
    job_id = system.submit(scan(tmp_path, 10))
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 10)
    assert system.log("cpu0").count("runner_outgrown") == 2
    assert system.rows.sql("SELECT 1 FROM chunk_attempt WHERE outcome <> 'done'") == []
