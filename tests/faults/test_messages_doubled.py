"""Messages that come several times, and long after they were of use."""

from pipeline.domain.document import Lane
from pipeline.domain.states import JobState, Step
from pipeline.ports.dispatch import DueChunk, DueJob
from tests.system import scan
from workers.app import create_app
from workers.chains import CeleryChains


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
