"""Devices that are drained, sick, or hold too much: what becomes of the chunk in work, and that they take no other."""

import json

from click.testing import CliRunner

from pipeline.adapters.devices import PostgresDeviceBoard
from pipeline.cli import cli
from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually

PATIENCE_S = 200
"""Each of these starts several runners, one after the other."""


def devices(system, *arguments):
    ran = CliRunner(env=system.environment).invoke(cli, ["devices", *arguments])
    assert ran.exit_code == 0, ran.output
    return ran.output


def shown(system, state, **more):
    """Wait until the device is in this state, and return what is known of it."""

    def as_asked():
        [seen] = PostgresDeviceBoard(system.rows.engine).all() or [None]
        return (
            seen
            if seen
            and (seen.state, seen.is_live) == (state, True)
            and seen.engine
            and all(getattr(seen, name) == value for name, value in more.items())
            else None
        )

    return eventually(as_asked, within=PATIENCE_S)


def logged(system, event):
    eventually(lambda: event in system.log("cpu0"), within=PATIENCE_S)


def test_a_device_is_described_as_soon_as_it_is_warm_and_shows_what_it_reads(system, tmp_path):
    gate = system.simulate_gate()
    system.start()
    warm = shown(system, "free")
    assert (warm.engine, warm.revision) == ("simulated", "1")
    assert 0 < warm.baseline_bytes <= warm.peak_bytes
    job_id = system.submit(scan(tmp_path, 3))
    busy = shown(system, "busy", job_id=job_id)
    assert f"reads chunk {busy.chunk_id} of job {job_id}" in devices(system)
    told = json.loads(devices(system, "--json"))
    assert (told["state"], told["holder"], told["chunk_id"]) == ("busy", busy.holder, str(busy.chunk_id))
    gate.touch()
    system.finished(job_id, within=PATIENCE_S)
    shown(system, "free", job_id=None)
    [attempt] = system.rows.sql("SELECT baseline_bytes, peak_bytes, after_bytes FROM chunk_attempt")
    assert attempt.peak_bytes >= max(attempt.baseline_bytes, attempt.after_bytes) > 0


def test_a_device_that_is_drained_finishes_its_page_and_takes_nothing_until_it_is_resumed(system, tmp_path):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 12))
    shown(system, "busy")
    devices(system, "drain", "cpu:0")
    logged(system, "runner_asked_to_stop")
    gate.touch()
    shown(system, "draining", chunk_id=None)
    logged(system, "consumers_changed")
    [drained] = system.rows.sql("SELECT outcome, pages_done FROM chunk_attempt")
    assert (drained.outcome, drained.pages_done) == ("drained", 1)
    other = system.submit(scan(tmp_path, 1, name="other.pdf"))
    # Another device does all of it meanwhile.
    system.spawn_slot(1)
    assert system.finished(job_id, within=PATIENCE_S).state is JobState.SUCCEEDED
    assert system.finished(other, within=PATIENCE_S).state is JobState.SUCCEEDED
    of_drained = "SELECT count(*) FROM chunk_attempt WHERE device_id LIKE '%/cpu:0'"
    assert system.rows.sql(of_drained)[0].count == 1
    system.kill("cpu1")
    # The way of the rows, in place of the command.
    system.rows.sql("UPDATE device SET drain_requested = false WHERE name = 'cpu:0'")
    last = system.submit(scan(tmp_path, 2, name="last.pdf"))
    assert system.finished(last, within=PATIENCE_S).state is JobState.SUCCEEDED
    assert system.rows.sql(of_drained)[0].count == 2
    assert [tuple(row) for row in system.rows.sql("SELECT DISTINCT failures, lost FROM chunk")] == [(0, 0)]
    system.assert_whole(job_id, 12)


def test_a_device_whose_runner_breaks_over_chunk_after_chunk_is_sick_until_a_probe_succeeds(system, tmp_path):
    system.environment |= {"MUNIMENT_DEVICES__SICK_AFTER": "2", "MUNIMENT_DEVICES__PROBE_EVERY": "PT4S"}
    system.simulate(faults={"1": "kill"})
    system.start()
    jobs = [system.submit(scan(tmp_path, 1, name=f"{number}.pdf")) for number in range(2)]
    logged(system, "device_sick")
    shown(system, "sick")
    shown(system, "free")
    for job_id in jobs:
        assert system.finished(job_id, within=PATIENCE_S).error_code == "all_pages_failed"
    # Two pages of which the second is whole: it goes on with work as before.
    healthy = system.submit(scan(tmp_path, 2, name="healthy.pdf"))
    assert system.finished(healthy, within=PATIENCE_S).outcomes == {"recognised": 1, "failed": 1}
    assert [
        row.code for row in system.rows.sql("SELECT DISTINCT error_code AS code FROM page WHERE outcome = 'failed'")
    ] == ["process_died"]


def test_memory_of_an_attempt_that_failed_is_written_down_and_its_runner_replaced(system, tmp_path):
    system.simulate(faults={"2": "memory"})
    system.start()
    job_id = system.submit(scan(tmp_path, 2))
    assert system.finished(job_id, within=PATIENCE_S).outcomes == {"recognised": 1, "failed": 1}
    failed = system.rows.sql("SELECT * FROM chunk_attempt WHERE error_code = 'out_of_memory'")
    assert failed
    assert all(attempt.after_bytes and attempt.peak_bytes for attempt in failed)


def test_a_runner_that_holds_more_than_when_it_was_warm_is_replaced_between_chunks(system, tmp_path):
    system.environment["MUNIMENT_DEVICES__BASELINE_TOLERANCE_BYTES"] = "0"
    system.start()
    job_id = system.submit(scan(tmp_path, 10))
    assert system.finished(job_id, within=PATIENCE_S).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 10)
    assert system.log("cpu0").count("runner_outgrown") == 2
    assert system.rows.sql("SELECT 1 FROM chunk_attempt WHERE outcome <> 'done'") == []
