"""An accelerator whose memory runs out, or does not suffice at all; a simulated one, in a whole system."""

import json
import subprocess
import sys

import pytest

from pipeline.domain.states import JobState
from tests.device_runs import CAPACITY_BYTES, PIXELS, accelerator
from tests.system import scan
from tests.waiting import eventually

NAME = "cuda:sim0"


@pytest.fixture
def accelerated(system, tmp_path):
    """Start a system with an accelerator of 1000 MiB, besides CPU slots where they are asked for."""

    def start(*, slots=0, gate=None, **more):
        simulation = {"folder": str(tmp_path), "accelerator": accelerator(**more), "batch_pages": 8}
        system.environment |= {
            "MUNIMENT_SIMULATED": json.dumps(simulation),
            "MUNIMENT_DEVICES__ACCELERATOR_ENGINE": "simulated",
            "MUNIMENT_CHUNKS__MAX_PAGES": "16",
        }
        gated = {"MUNIMENT_SIMULATED": json.dumps({**simulation, "gate": str(gate)})} if gate else {}
        worker = ("workers.worker", "--device", NAME)
        system.start(slots=slots)
        system.spawn("accelerator", *worker, MUNIMENT_DEVICE_BYTES=str(CAPACITY_BYTES), **gated)
        wanted = 1 + slots
        live = "SELECT count(*) AS live FROM device WHERE lease_until > now() AND engine IS NOT NULL"
        eventually(lambda: system.rows.sql(live)[0].live == wanted, within=120)
        return system

    return start


def events(system, kind):
    return [row.detail for row in system.rows.sql("SELECT detail FROM event WHERE kind = :kind ORDER BY id", kind=kind)]


def test_batches_that_do_not_fit_are_lowered_once_and_the_plan_is_corrected(accelerated, tmp_path):
    # 7 pages fit, and the engine says that 14 do: its batches of 8 run out of memory.
    system = accelerated(predicted=0.4)
    first = system.submit(scan(tmp_path, 16), options={"lane": "gpu"})
    assert system.finished(first).state is JobState.SUCCEEDED
    [lowered] = events(system, "chunk.batch_lowered")
    assert (lowered["pages"], lowered["attempt"]) == (4, 1)
    second = system.submit(scan(tmp_path, 16, name="second.pdf"), options={"lane": "gpu"})
    assert system.finished(second).state is JobState.SUCCEEDED
    assert len(events(system, "chunk.batch_lowered")) == 1
    for job_id in (first, second):
        system.assert_whole(job_id, 16)
    [learnt] = system.rows.sql("SELECT pages, correction FROM engine_memory")
    assert learnt.pages == 4
    assert learnt.correction == pytest.approx(2.5, rel=0.01)
    attempts = system.rows.sql("SELECT * FROM chunk_attempt ORDER BY started_at")
    assert {attempt.outcome for attempt in attempts} == {"done"}
    last = attempts[-1]
    assert last.baseline_bytes == last.after_bytes == last.used_bytes
    assert last.baseline_bytes < last.planned_bytes < last.peak_bytes <= last.reserved_bytes
    assert last.resident_bytes > 0


def test_what_fits_on_no_accelerator_goes_to_the_cpu_or_is_refused(accelerated, tmp_path):
    system = accelerated(slots=1, model_bytes=CAPACITY_BYTES - 2**20)
    sent = system.submit(scan(tmp_path, 12))
    refused = system.submit(scan(tmp_path, 2, name="refused.pdf"), options={"lane": "gpu"})
    status = system.finished(refused)
    assert (status.state, status.error_code) == (JobState.REJECTED, "does_not_fit")
    assert system.finished(sent).state is JobState.SUCCEEDED
    [elsewhere] = events(system, "job.sent_elsewhere")
    assert elsewhere["lane"] == "cpu"
    assert "needs" in elsewhere["reason"]
    assert system.rows.sql("SELECT DISTINCT lane FROM chunk")[0].lane == "cpu"


def test_a_class_of_pages_that_fits_in_no_way_goes_to_the_other_engine_at_once_until_that_is_forgotten(
    accelerated, system, tmp_path
):
    system.environment["MUNIMENT_DEVICES__OTHER_ENGINE__SIMULATED"] = "rapidocr"
    # The engine says that a page takes a tenth of what it does, which is more than there is beside the model.
    accelerated(bytes_per_pixel=CAPACITY_BYTES / PIXELS, predicted=0.1)

    def read(name, pages):
        """Read a document; return the engines that read it, and how its attempts ended."""
        job_id = system.submit(scan(tmp_path, pages, name=name), options={"lane": "gpu"})
        assert system.finished(job_id, within=200).state is JobState.SUCCEEDED
        engines = system.rows.sql("SELECT DISTINCT engine FROM page WHERE job_id = :id", id=job_id)
        ended = system.rows.sql(
            "SELECT chunk_attempt.error_code FROM chunk_attempt JOIN chunk ON id = chunk_id WHERE job_id = :id",
            id=job_id,
        )
        return {row.engine for row in engines}, [row.error_code for row in ended]

    engines, ended = read("first.pdf", 1)
    assert engines == {"rapidocr"}
    assert ended.count("out_of_memory") == len(ended) - 1 > 0
    assert read("second.pdf", 4) == ({"rapidocr"}, [None])
    first, second = events(system, "chunk.engine_changed")
    assert (first["engine"], "remembered" in first) == ("rapidocr", False)
    assert (second["engine"], second["code"], second["remembered"]) == ("rapidocr", "out_of_memory", True)

    system.rows.sql("UPDATE engine_memory SET other_at = other_at - interval '2 hours'")
    engines, ended = read("third.pdf", 1)
    assert (engines, ended.count("out_of_memory")) == ({"rapidocr"}, len(ended) - 1)
    assert read("fourth.pdf", 1) == ({"rapidocr"}, [None])


def shown_devices(system):
    """Return what `muniment devices` shows, by device."""
    command = [sys.executable, "-m", "pipeline.cli", "devices", "--json"]
    shown = subprocess.run(command, env=system.environment, capture_output=True, text=True, check=True).stdout
    return {device["name"]: device for device in map(json.loads, shown.splitlines())}


def test_a_long_scan_goes_to_the_accelerator_and_a_short_one_does_not_wait_for_it(accelerated, flower, tmp_path):
    gate = tmp_path / "gate"
    system = accelerated(slots=1, gate=gate)
    long = system.submit(scan(tmp_path, 120))
    system.in_work()
    short = system.submit(scan(tmp_path, 2, name="short.pdf"))
    assert system.finished(short).state is JobState.SUCCEEDED
    assert system.status(long).state is JobState.RUNNING
    # The rows move first, the device's follows.
    eventually(lambda: shown_devices(system)["cpu:0"]["state"] == "free")
    assert shown_devices(system)[NAME]["state"] == "busy"
    gate.touch()
    assert system.finished(long, within=200).state is JobState.SUCCEEDED
    where = "SELECT DISTINCT job_id, lane, device_id FROM chunk JOIN chunk_attempt ON chunk_id = id"
    read = {(row.job_id, row.lane, row.device_id.rpartition("/")[2]) for row in system.rows.sql(where)}
    assert read == {(long, "gpu", NAME), (short, "cpu", "cpu:0")}
    system.assert_whole(long, 120)

    def nodes():
        tasks = [task for task in json.loads(flower("/api/tasks")).values() if task["name"] == "muniment.recognise"]
        return {(task["root_id"], task["worker"].partition("@")[0]) for task in tasks if task["worker"]}

    wanted = {(str(long), "cudasim0"), (str(short), "cpu0")}
    eventually(lambda: nodes() == wanted, within=30)
