"""A rolling change: each process is stopped as an engine stops it, and started anew, while documents are read."""

import signal

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually

STARTED = {"dispatcher": "dispatcher_started", "io": " ready.", "cpu": " ready."}


def test_jobs_in_flight_survive_a_restart_of_every_process_one_by_one(system, tmp_path):
    system.simulate(page_ms=120)
    system.start(slots=2, dispatchers=2, io=2)
    for name in system.processes:
        eventually(lambda name=name: STARTED[name.rstrip("0123456789")] in system.log(name), within=120)
    long = system.submit(scan(tmp_path, 60))
    later = []
    for name in list(system.processes):
        pages = system.status(long).pages_done
        later.append(system.submit(scan(tmp_path, 2, name=f"{name}.pdf")))
        assert system.kill(name, signal.SIGTERM).returncode == 0
        system.again(name)
        # The change goes on to the next process when work has gone on.
        system.pages_done(long, min(pages + 1, 60))
    for job_id, pages in ((long, 60), *((job_id, 2) for job_id in later)):
        assert system.finished(job_id).state is JobState.SUCCEEDED
        system.assert_whole(job_id, pages)
    assert {outcome for outcome, _ in system.attempts()} <= {"done", "drained"}
    assert [tuple(row) for row in system.rows.sql("SELECT DISTINCT failures, lost FROM chunk")] == [(0, 0)]
    # What was read before a stop is not read again.
    assert system.rows.sql("SELECT sum(pages_done) AS pages FROM chunk_attempt")[0].pages == 60 + 2 * len(later)
