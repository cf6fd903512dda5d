"""One of two dispatchers is killed."""

from pipeline.domain.states import JobState
from tests.system import scan


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
