"""One job among many kills its process on several of its pages."""

from pipeline.domain.states import JobState
from tests.system import scan


def test_a_poison_job_costs_the_others_nothing(system, tmp_path):
    system.simulate(faults={"5": "kill", "6": "kill"})
    system.start(slots=2)
    workers = [system.processes[name] for name in ("cpu0", "cpu1")]
    poison = system.submit(scan(tmp_path, 7, name="poison.pdf"))
    innocent = [system.submit(scan(tmp_path, 4, name=f"{number}.pdf")) for number in range(4)]
    for job_id in innocent:
        assert system.finished(job_id).state is JobState.SUCCEEDED
        system.assert_whole(job_id, 4)
    assert system.finished(poison).outcomes == {"recognised": 5, "failed": 2}
    system.assert_whole(poison, 7)
    failed = "SELECT job_id FROM chunk_attempt JOIN chunk ON chunk.id = chunk_id WHERE outcome <> 'done'"
    assert {row.job_id for row in system.rows.sql(failed)} == {poison}
    assert [worker.poll() for worker in workers] == [None, None]
