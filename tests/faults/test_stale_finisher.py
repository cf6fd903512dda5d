"""SIGSTOP past a lease: another finishes in the meantime, and whoever wakes up late writes nothing."""

import signal

from pipeline.domain.states import JobState
from tests.faults.injection import Point, struck_at
from tests.system import scan
from tests.waiting import eventually


def segments(system, job_id):
    """Return what lies at each key that the ledger names."""
    found = {}
    for key in {page.segment_key for page in system.rows.ledger.pages(job_id)}:
        with system.objects.get(key) as pieces:
            found[key] = b"".join(pieces)
    return found


def test_a_device_that_slept_past_its_lease_records_nothing(system, tmp_path):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 10))
    system.in_work()
    sleepers = system.child("cpu0"), system.runner("cpu0")
    for process in sleepers:
        process.suspend()
    gate.touch()
    system.spawn_slot(1)
    assert system.finished(job_id).state is JobState.SUCCEEDED
    written = segments(system, job_id)
    for process in sleepers:
        process.resume()
    eventually(lambda: "chunk_taken_away" in system.log("cpu0"))
    assert segments(system, job_id) == written
    system.assert_whole(job_id, 10)
    assert sorted(system.attempts()) == [("done", None)] * 2 + [("lost", "lease_expired")]
    # It is of use again.
    system.kill("cpu1")
    other = system.submit(scan(tmp_path, 1, name="other.pdf"))
    assert system.finished(other).state is JobState.SUCCEEDED


def test_a_merge_that_slept_past_its_lease_moves_nothing(system, tmp_path):
    point = Point(
        program="workers.worker",
        at="pipeline.adapters.jobs.PostgresJobSteps.merged",
        when="before",
        sends=signal.SIGSTOP,
    )
    system.environment["MUNIMENT_LEASES__STEP"] = "PT10S"
    system.start(io=0)
    system.spawn_io(0, **struck_at([point], tmp_path))
    job_id = system.submit(scan(tmp_path, 3))
    eventually(point.mark(tmp_path).exists)
    sleeper = system.child("io0")
    system.spawn_io(1)
    assert system.finished(job_id).state is JobState.SUCCEEDED
    ended = system.status(job_id)
    sleeper.resume()
    eventually(lambda: "step_taken_away" in system.log("io0"))
    assert system.status(job_id) == ended
    system.assert_whole(job_id, 3)
