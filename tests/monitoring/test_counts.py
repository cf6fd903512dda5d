"""What processes count and what the rows say is what the ledger has, also after failures."""

import os
import signal
from datetime import timedelta

from pipeline.adapters.figures import PostgresFigures
from pipeline.domain.states import JobState
from pipeline.embedded.ports import PortPicker
from pipeline.monitoring.serving import Beat, MetricsServer
from pipeline.settings import MetricsSettings
from tests.monitoring.scraping import Scrape, get
from tests.system import scan
from tests.waiting import eventually

OUTCOMES = "SELECT outcome, count(*) FROM page GROUP BY outcome"
ATTEMPTS = "SELECT outcome, coalesce(error_code, ''), count(*) FROM chunk_attempt GROUP BY 1, 2"
JOBS = "SELECT state, coalesce(error_code, ''), count(*) FROM job GROUP BY 1, 2"


def counted(system, query):
    """Return what a query counts by the columns before the last."""
    return {row[0] if len(row) == 2 else tuple(row[:-1]): row[-1] for row in system.rows.sql(query)}


def served(port):
    return {"MUNIMENT_METRICS__PORT": str(port), "MUNIMENT_METRICS__EVERY": "PT0.01S"}


def test_processes_and_rows_agree_with_the_ledger_after_a_run_with_failures(system, tmp_path):
    picker = PortPicker(tmp_path)
    dispatcher, io, device, rows = (picker.pick() for _ in range(4))
    system.simulate(faults={"3": "fail", "7": "kill"}, tokens=60)
    system.spawn_dispatcher(0, **served(dispatcher))
    system.spawn_io(0, **served(io))
    worker = system.spawn_slot(0, **served(device))
    system.spawn("metrics", "pipeline.monitoring.exporter", **served(rows))
    poisoned = system.submit(scan(tmp_path, 10))
    (tmp_path / "salad.pdf").write_text("potato salad")
    rejected = system.submit(tmp_path / "salad.pdf")
    assert system.finished(poisoned).state is JobState.PARTIAL
    assert system.finished(rejected).state is JobState.REJECTED

    # The rows move first, the count follows.
    eventually(lambda: Scrape(device).by("muniment_pages_total", "outcome") == counted(system, OUTCOMES))
    processes, said = Scrape(io, device), Scrape(rows)
    attempts = counted(system, ATTEMPTS)
    assert {code for outcome, code in attempts if outcome == "failed"} == {"process_died"}
    assert processes.by("muniment_attempts_total", "outcome", "error_code") == attempts
    assert said.by("muniment_ended_attempts", "outcome", "error_code") == attempts
    assert said.by("muniment_ended_pages", "outcome") == counted(system, OUTCOMES)
    assert said.by("muniment_ended_jobs", "state", "error_code") == counted(system, JOBS)
    assert said.by("muniment_jobs", "state") == {}
    assert said.by("muniment_chunks", "state") == {"dead": 1}
    # A device is given back after the last that it did was written down.
    eventually(lambda: Scrape(rows).by("muniment_devices", "kind", "state") == {("cpu", "free"): 1})
    assert said.one("muniment_no_progress_seconds") == 0
    peak = system.rows.sql("SELECT max(peak_bytes) FROM chunk_attempt")[0].max
    assert processes.by("muniment_chunk_peak_bytes", "device") == {"cpu:0": peak}
    # Eight pages were read; what was entered by attempts that died counts, too.
    assert system.rows.sql("SELECT sum(tokens) FROM chunk_attempt")[0].sum == 8 * 60
    assert processes.by("muniment_tokens_total", "engine") == {"simulated": 8 * 60}
    assert processes.by("muniment_steps_total", "step", "error_code") == {
        ("ingest", ""): 1,
        ("ingest", "not_a_document"): 1,
        ("split", ""): 1,
        ("merge", ""): 1,
        ("export", ""): 1,
        ("deliver", ""): 1,
    }
    assert processes.by("muniment_chunk_seconds_count", "outcome").keys() == {outcome for outcome, _ in attempts}

    # A pool's child that is replaced adds to what the one before it has counted.
    os.kill(system.child("cpu0").pid, signal.SIGKILL)
    again = system.submit(scan(tmp_path, 2, name="again.pdf"))
    assert system.finished(again).state is JobState.SUCCEEDED
    eventually(lambda: Scrape(device).by("muniment_pages_total", "outcome") == counted(system, OUTCOMES))
    assert get(device, "/readyz") == (200, "ready\n")
    assert get(dispatcher, "/readyz") == (200, "ready\n")
    assert worker.poll() is None


def test_what_waits_is_told_by_lane_and_age(rows):
    figures = PostgresFigures(rows.engine, MetricsSettings().window)
    assert figures.read().no_progress_s == 0
    rows.running(3, 2)
    held = rows.running(5)
    rows.sql("UPDATE job SET paused = true WHERE id = :id", id=held)
    step = rows.submitted(tenant="museum")
    rows.sql("ALTER TABLE job DISABLE TRIGGER job_touch; ALTER TABLE chunk DISABLE TRIGGER chunk_touch")
    rows.sql("UPDATE chunk SET updated_at = now() - interval '90 s' WHERE job_id <> :held", held=held)
    rows.sql("UPDATE chunk SET updated_at = now() - interval '1 h' WHERE job_id = :held", held=held)
    rows.sql("UPDATE job SET updated_at = now() - interval '30 s', begun_at = now() - interval '40 s'")
    known = figures.read()
    lane = known.lanes["cpu"]
    assert (lane.chunks, lane.pages, lane.seconds) == ({"ready": 3}, 10, 10.0)
    assert 90 <= lane.age_s < 120
    assert 30 <= known.step_age_s < 60
    assert 40 <= known.no_progress_s < 70
    assert known.tenants == {"default": 10}
    rows.sql("UPDATE tenant SET paused = true")
    known = figures.read()
    assert (known.lanes["cpu"].age_s, known.step_age_s, known.no_progress_s) == (0, 0, 0)
    assert known.open_jobs == {"running": 2, "submitted": 1}
    assert rows.state("job", step) == "submitted"


def test_webhooks_that_wait_and_that_ended_are_told(rows):
    figures = PostgresFigures(rows.engine, MetricsSettings().window)
    assert (figures.read().deliveries.due, figures.read().deliveries.age_s) == (0, 0)
    for _ in range(3):
        rows.ended(1, callback_url="https://museum.test/")
    rows.sql("UPDATE delivery SET begun_at = now() - interval '90 s'")
    dead = "UPDATE delivery SET state = 'dead', last_error = 'timed_out', next_at = NULL, ended_at = now()"
    rows.sql(f"{dead} WHERE id = (SELECT min(id::text)::uuid FROM delivery)")
    known = figures.read().deliveries
    assert (known.due, known.ended) == (2, {("dead", "timed_out"): 1})
    assert 90 <= known.age_s < 120


def test_readiness_says_what_stands_still(tmp_path):
    beat = Beat("the moving of rows", within=timedelta(seconds=0.01))
    port = PortPicker(tmp_path).pick()
    MetricsServer(MetricsSettings(port=port), beat.problem).start()
    assert get(port, "/livez") == (200, "lives\n")
    assert get(port, "/readyz") == (503, "the moving of rows has not begun\n")
    beat()
    eventually(lambda: get(port, "/readyz") == (503, "the moving of rows stands still for 0 s\n"))
    assert get(port, "/elsewhere")[0] == 404


def test_a_port_that_is_taken_ends_a_process_before_it_works(system, tmp_path):
    port = PortPicker(tmp_path).pick()
    system.spawn_dispatcher(0, **served(port))
    get(port)
    taken = {"MUNIMENT_METRICS__PORT": str(port)}
    for process in (system.spawn_dispatcher(1, **taken), system.spawn_io(1, **taken)):
        assert process.wait(60) == 2
    for name in ("dispatcher1", "io1"):
        assert f"metrics.port: 127.0.0.1:{port} can't be had" in system.log(name)
