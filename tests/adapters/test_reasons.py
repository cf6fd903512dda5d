"""Why nothing happens, in words."""

from datetime import timedelta

import pytest

from pipeline.adapters.devices import PostgresDevices
from pipeline.adapters.reasons import PostgresReasons
from pipeline.domain.document import Lane
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.states import Step
from pipeline.ports.devices import DeviceInfo
from tests.rows import unknown


@pytest.fixture
def why(rows):
    return lambda job_id: PostgresReasons(rows.engine).waits_for([job_id]).get(job_id)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("SELECT 1", "its turn for ingest"),
        ("UPDATE job SET dispatched_at = now()", "a worker to take its ingest"),
        ("UPDATE job SET paused = true", "whoever paused it, to resume it"),
        ("UPDATE tenant SET paused = true", "its tenant default, which is paused"),
        ("UPDATE job SET cancel_requested = true", "the page in work, to be cancelled"),
        ("UPDATE job SET hours = '20:00-06:00'; UPDATE job SET off_hours = true", "its hours, 20:00-06:00"),
        ("UPDATE job SET state = 'failed', error_code = 'internal', finished_at = now()", None),
    ],
)
def test_a_job_says_what_it_waits_for(rows, why, change, reason):
    job_id = rows.submitted()
    rows.sql(change)
    assert why(job_id) == reason


def test_a_step_in_work_names_who_does_it_and_one_that_failed_when_it_is_tried_again(rows, why):
    job_id = rows.submitted()
    job = rows.jobs.claim(job_id, Step.INGEST, 1)
    assert why(job_id) == "ingest, by worker/1"
    rows.jobs.put_back(job.claim, PipelineError(ErrorCode.STORE_UNAVAILABLE, "away"), timedelta(minutes=1))
    assert why(job_id).endswith("after store_unavailable")


def test_a_running_job_counts_its_chunks_and_says_that_no_device_is_there(rows, why):
    job_id = rows.running(1, 1, 1, lane=Lane.GPU)
    assert why(job_id) == "a device that serves the lane gpu; none is live (chunks: 3 waiting)"
    PostgresDevices(rows.engine, lease=timedelta(minutes=1)).acquire(
        DeviceInfo(host="here", name="cuda:0", kind="cuda", lanes=(Lane.GPU,)), "first"
    )
    rows.take_chunks(1, Lane.GPU)
    assert why(job_id) == "chunks: 1 sent, 2 waiting"


def test_there_is_nothing_to_say_of_a_job_that_is_not_there(why):
    assert why(unknown()) is None


def test_each_of_many_jobs_is_told_its_own_reason(rows):
    waiting, paused, ended = rows.submitted(), rows.submitted(), rows.ended(1)
    rows.sql("UPDATE job SET paused = true WHERE id = :id", id=paused)
    cpu, gpu = rows.running(1, 1, lane=Lane.CPU), rows.running(1, lane=Lane.GPU)
    rows.hold_device()
    rows.sql(
        "UPDATE chunk SET error_code = 'process_died', not_before = now() + interval '1 h' WHERE job_id = :id AND"
        " ordinal = 0",
        id=cpu,
    )
    assert PostgresReasons(rows.engine).waits_for([waiting, paused, ended, cpu, gpu, unknown()]) == {
        waiting: "its turn for ingest",
        paused: "whoever paused it, to resume it",
        cpu: "chunks: 2 waiting; some again after process_died",
        gpu: "a device that serves the lane gpu; none is live (chunks: 1 waiting)",
    }
