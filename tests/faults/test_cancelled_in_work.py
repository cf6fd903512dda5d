"""A job is cancelled while a device reads it."""

from pipeline.domain.states import ChunkState, JobState
from tests.system import scan


def test_a_running_job_that_is_cancelled_stops_at_its_next_page_and_never_merges(system, tmp_path):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 20))
    system.in_work()
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
