"""What goes over the broker, and the settings under which it does: the same for every process, and nothing but ids."""

import base64
import json
import os
import subprocess
import sys
from uuid import UUID

import pytest
import redis

from pipeline.domain.document import ChunkId, JobId, Lane
from pipeline.domain.errors import Transient
from pipeline.domain.states import Step
from pipeline.ports.dispatch import DueChunk, DueJob
from pipeline.settings import BrokerSettings, SettingsError
from workers.app import configuration, create_app, transport_options
from workers.chains import CeleryChains, task_id

JOB = JobId(UUID("01900000-0000-7000-8000-000000000001"))
CHUNK = ChunkId(UUID("01900000-0000-7000-8000-0000000000c1"))
MOST_BYTES = 2048


STEPS_OF_PRIORITY = ("", "\x06\x163", "\x06\x166", "\x06\x169")
"""How kombu's Redis transport names the lists of a queue, the first that is taken from first."""


def messages(settings, queue):
    """Return the raw messages that wait in a queue, in the order in which they are taken."""
    with redis.Redis.from_url(settings.broker.url.get_secret_value()) as broker:
        lists = [broker.lrange(f"{settings.broker.key_prefix}{queue}{step}", 0, -1) for step in STEPS_OF_PRIORITY]
    return [raw for waiting in lists for raw in reversed(waiting)]


def due_chunk(lane, **more):
    return DueChunk(chunk_id=CHUNK, job_id=JOB, lane=lane, attempt=2, **more)


def test_a_job_goes_out_as_a_chain_of_ids_under_its_own_root(settings):
    CeleryChains(create_app(settings)).send_job(DueJob(job_id=JOB, step=Step.INGEST, attempt=1))
    [raw] = messages(settings, "io")
    message = json.loads(raw)
    args, kwargs, embedded = json.loads(base64.b64decode(message["body"]))
    headers = message["headers"]
    assert headers["task"] == "muniment.ingest"
    assert headers["id"] == headers["root_id"] == str(JOB)
    assert (args, kwargs) == ([str(JOB), 1], {})
    [following] = embedded["chain"]
    assert following["task"] == "muniment.split"
    assert following["args"] == [str(JOB), 2]
    assert following["immutable"] is True
    assert following["options"]["task_id"] == task_id(JOB, Step.SPLIT, 2)


def test_the_three_last_steps_are_one_chain(settings):
    CeleryChains(create_app(settings)).send_job(DueJob(job_id=JOB, step=Step.MERGE, attempt=3))
    [raw] = messages(settings, "io")
    _, _, embedded = json.loads(base64.b64decode(json.loads(raw)["body"]))
    assert [part["args"] for part in reversed(embedded["chain"])] == [[str(JOB), 4], [str(JOB), 5]]
    assert [part["options"]["headers"] for part in embedded["chain"]] == [{"muniment-version": 1}] * 2
    assert json.loads(raw)["headers"]["root_id"] == str(JOB)
    assert json.loads(raw)["headers"]["parent_id"] == str(JOB)


@pytest.mark.parametrize(
    ("lane", "queue", "task"), [(Lane.CPU, "cpu", "muniment.recognise"), (Lane.GPU, "render", "muniment.render")]
)
def test_a_chunk_goes_to_its_lane_by_way_of_the_render_queue_where_that_pays(settings, lane, queue, task):
    CeleryChains(create_app(settings)).send_chunk(due_chunk(lane))
    [raw] = messages(settings, queue)
    headers = json.loads(raw)["headers"]
    assert (headers["task"], headers["root_id"]) == (task, str(JOB))
    assert json.loads(base64.b64decode(json.loads(raw)["body"]))[0] == [str(CHUNK), 2]


@pytest.mark.parametrize("lane", Lane)
def test_a_chunk_of_a_short_job_is_taken_before_those_of_long_ones(settings, lane):
    chains = CeleryChains(create_app(settings))
    chains.send_chunk(due_chunk(lane))
    chains.send_chunk(due_chunk(lane, is_short=True))
    queue = "render" if lane.renders_ahead else str(lane)
    assert [json.loads(raw)["properties"]["priority"] for raw in messages(settings, queue)] == [0, 6]


def test_no_message_is_delayed_expires_is_retried_or_is_large(settings):
    chains = CeleryChains(create_app(settings))
    for step in (Step.INGEST, Step.SPLIT, Step.MERGE):
        chains.send_job(DueJob(job_id=JOB, step=step, attempt=1))
    for lane in Lane:
        chains.send_chunk(due_chunk(lane))
    sent = [raw for queue in ("io", "render", "cpu", "gpu") for raw in messages(settings, queue)]
    assert len(sent) == 5
    for raw in sent:
        headers = json.loads(raw)["headers"]
        assert (headers["eta"], headers["expires"], headers["retries"]) == (None, None, 0)
        assert headers["timelimit"] == [None, None]
        assert headers["muniment-version"] == 1
        assert len(raw) < MOST_BYTES


def test_the_depth_of_a_queue_is_what_waits_in_it(settings):
    chains = CeleryChains(create_app(settings))
    assert chains.depth("cpu") == 0
    chains.send_chunk(due_chunk(Lane.CPU))
    chains.send_chunk(due_chunk(Lane.CPU))
    assert chains.depth("cpu") == 2


def test_a_broker_that_is_away_is_said_soon_and_typed(settings):
    from pydantic import SecretStr

    away = settings.model_copy(update={"broker": BrokerSettings(url=SecretStr("redis://:x@127.0.0.1:1/0"))})
    chains = CeleryChains(create_app(away))
    with pytest.raises(Transient, match="the broker did not answer"):
        chains.send_chunk(due_chunk(Lane.CPU))
    with pytest.raises(Transient, match="the broker did not answer"):
        chains.depth("cpu")


def test_ids_of_tasks_are_the_same_each_time_and_differ_between_attempts():
    assert task_id(JOB, Step.INGEST, 1) == str(JOB)
    assert task_id(JOB, Step.SPLIT, 2) == task_id(JOB, Step.SPLIT, 2)
    ids = {task_id(JOB, step, attempt, chunk) for step in Step for attempt in (2, 3) for chunk in (None, CHUNK)}
    assert len(ids) == 2 * 2 * len(Step)


def test_the_settings_that_a_measured_trap_asks_for(settings):
    conf = create_app(settings).conf
    assert conf.task_acks_late is False
    assert conf.worker_disable_prefetch is True
    assert conf.worker_prefetch_multiplier == 1
    assert conf.result_backend is None
    assert conf.accept_content == ["json"]
    assert conf.task_reject_on_worker_lost is False
    assert conf.worker_proc_alive_timeout >= settings.leases.warm_up.total_seconds()
    assert conf.task_create_missing_queues is False
    assert conf.broker_connection_max_retries is None
    options = conf.broker_transport_options
    assert options["visibility_timeout"] >= 12 * 3600
    assert options["socket_timeout"]
    assert options["socket_connect_timeout"]


def test_every_entry_point_resolves_the_same_broker_options(settings, environment):
    """The shortest visibility timeout of any process on a server wins, so one that differs breaks all."""
    script = "import json; from workers.app import app; print(json.dumps(app.conf.broker_transport_options))"
    seen = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    assert json.loads(seen.stdout) == transport_options(settings)
    # What `celery --app workers.app` (workers, Flower, inspect) sees is what the dispatcher builds.
    report = subprocess.run(
        [sys.executable, "-m", "celery", "--app", "workers.app", "report"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    # The report hides whatever has "key" in its name.
    shown = {name: value for name, value in transport_options(settings).items() if "key" not in name}
    for name, value in shown.items():
        assert f"'{name}': {value!r}" in report.stdout


def test_without_a_broker_it_is_said_which_setting_is_missing(settings):
    with pytest.raises(SettingsError, match=r"broker\.url"):
        configuration(settings.model_copy(update={"broker": BrokerSettings()}))
