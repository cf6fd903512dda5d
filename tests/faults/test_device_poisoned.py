"""F14: the device reports an error that poisons its process for good."""

from pipeline.domain.states import JobState
from tests.system import scan


def test_a_poisoned_process_reads_nothing_more_and_the_page_that_poisons_is_set_apart(system, tmp_path):
    system.environment["MUNIMENT_DEVICES__SICK_AFTER"] = "50"
    journal = tmp_path / "journal"
    system.simulate(faults={"3": "poison"}, journal=str(journal))
    system.start()
    job_id = system.submit(scan(tmp_path, 12))
    status = system.finished(job_id, within=200)
    assert (status.state, status.outcomes) == (JobState.PARTIAL, {"recognised": 11, "failed": 1})
    failed = [(page.number, page.error_code) for page in system.rows.ledger.pages(job_id) if page.error_code]
    assert failed == [(3, "device_broken")]
    system.assert_whole(job_id, 12)
    poisonings = system.attempts().count(("failed", "device_broken"))
    assert poisonings >= 3  # twice in its chunk, then alone
    # Each in a process of its own, for one that was poisoned would be so at every later page, too.
    processes = {line.split()[1] for line in journal.read_text().splitlines()}
    assert poisonings <= len(processes)
    assert system.log("cpu0").count("runner_started") == 1 + poisonings


def test_a_device_that_poisons_chunk_after_chunk_is_set_aside(system, tmp_path):
    system.environment |= {"MUNIMENT_DEVICES__SICK_AFTER": "2", "MUNIMENT_DEVICES__PROBE_EVERY": "PT3S"}
    system.simulate(faults={"1": "poison"})
    system.start()
    jobs = [system.submit(scan(tmp_path, 1, name=f"{number}.pdf")) for number in range(2)]
    for job_id in jobs:
        assert system.finished(job_id, within=200).error_code == "all_pages_failed"
    assert "device_sick" in system.log("cpu0")
