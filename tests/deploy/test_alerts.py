"""Each alert fires by its cause, done to real processes and rows, and by nothing else that was done here.

`Watch` scrapes them as Prometheus would and evaluates the rules as they are shipped.
"""

import json
import signal
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from pipeline.domain.states import JobState
from pipeline.embedded.prepare import store_client
from tests.deploy.composing import shipped_alerts
from tests.deploy.watching import Watch
from tests.device_runs import CAPACITY_BYTES, accelerator
from tests.small_disk import small_disk
from tests.system import scan
from tests.waiting import eventually
from tests.web import WebServer, says

CAUSED = {}


def causes(*alerts):
    """Give a test the alerts that it causes, as `alerts`."""

    def told(test):
        CAUSED.update(dict.fromkeys(alerts, test.__name__))
        return pytest.mark.parametrize("alerts", [alerts], ids=["-".join(alerts)])(test)

    return told


@pytest.fixture
def watch(system, tmp_path):
    """Watches the rows; a test lets it watch whatever else it starts."""
    made = Watch(tmp_path)
    system.spawn("metrics", "pipeline.monitoring.exporter", **made.port_for("metrics"))
    return made


def start(system, watch, **environment):
    """Start a dispatcher and a worker for steps."""
    system.spawn_dispatcher(0, **watch.port_for("dispatcher"), **environment)
    system.spawn_io(0, **watch.port_for("io"))


def let_two_hours_pass(system):
    """Make all rows so much older."""
    times = system.rows.sql(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND data_type = 'timestamp with time zone'"
    )
    older = defaultdict(list)
    for table, column in times:
        older[table].append(f"{column} = {column} - interval '2 hours'")
    updates = [f"UPDATE {table} SET {', '.join(columns)}" for table, columns in older.items()]
    # No trigger of ours says meanwhile that the rows were touched.
    system.rows.sql("; ".join(["SET LOCAL session_replication_role = replica", *updates]))


def logged(system, event, *, more):
    """Wait until the dispatcher has logged it so much more often."""
    before = system.log("dispatcher0").count(event)
    eventually(lambda: system.log("dispatcher0").count(event) >= before + more)


def finished(system, folder, pages, *, size=(400, 200), **more):
    """Hand a document in and return what became of it."""
    return system.finished(system.submit(scan(folder, pages, size=size), **more))


@causes("MunimentQueueAge", "MunimentNoProgress", "MunimentWebhooksBehind")
def test_nobody_does_what_is_to_be_done(system, watch, alerts):
    system.rows.ended(1, callback_url="https://museum.test/")
    system.rows.running(3, 2)
    watch.is_quiet()
    let_two_hours_pass(system)
    watch.fires(*alerts)


@causes("MunimentDispatchPutOff", "MunimentRetentionBehind", "MunimentWebhooksGivenUp")
def test_store_and_endpoint_refuse_what_a_dispatcher_asks(system, watch, objects, alerts):
    system.environment |= {
        "MUNIMENT_WEBHOOKS__HTTP": "true",
        "MUNIMENT_WEBHOOKS__PORTS": "[]",
        "MUNIMENT_WEBHOOKS__ALLOWED_NETWORKS": '["127.0.0.1/32"]',
        "MUNIMENT_RETENTION__RESULTS": "PT1H",
        "MUNIMENT_RETENTION__EVERY": "PT0.1S",
        "MUNIMENT_DISPATCHER__POLL": "PT0.1S",
    }
    system.spawn_dispatcher(0, **watch.port_for("dispatcher"))
    watch.is_quiet()
    with locked(objects), WebServer(says(410)) as gone:
        system.rows.ended(1)
        let_two_hours_pass(system)
        system.rows.ended(1, callback_url=gone.url)
        for more in (1, 12):
            logged(system, "expired_not_removed", more=more)
            logged(system, "dispatch_put_off", more=more)
            watch.scrape()
        watch.fires(*alerts)


@contextmanager
def locked(objects):
    """Let nobody list objects; that some are not to be removed is a policy that the embedded store does not heed."""
    client, bucket = store_client(objects), f"arn:aws:s3:::{objects.bucket}"
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:ListBucket", "Resource": bucket}
    client.set_bucket_policy(objects.bucket, json.dumps({"Version": "2012-10-17", "Statement": [deny]}))
    try:
        yield
    finally:
        client.delete_bucket_policy(objects.bucket)


@causes("MunimentDeadChunks", "MunimentErrorRate", "MunimentFailedJobs", "MunimentDeviceSick")
def test_documents_and_their_device_break(system, watch, tmp_path, alerts):
    system.simulate(sizes={"600x300": "kill"})
    system.environment |= {"MUNIMENT_DEVICES__SICK_AFTER": "2", "MUNIMENT_DEVICES__PROBE_EVERY": "PT1H"}
    start(system, watch)
    system.spawn_slot(0, **watch.port_for("device"))
    assert finished(system, tmp_path, 2).state is JobState.SUCCEEDED
    watch.is_quiet()
    assert finished(system, tmp_path, 1, size=(300, 150)).state is JobState.FAILED
    system.submit(scan(tmp_path, 1, size=(300, 150)))
    eventually(lambda: system.rows.sql("SELECT 1 FROM device WHERE state = 'sick'"))
    watch.fires(*alerts)


@causes("MunimentLostAttempts", "MunimentProcessDown", "MunimentDeviceGone")
def test_workers_are_killed(system, watch, tmp_path, alerts):
    gate = system.simulate_gate()
    system.environment["MUNIMENT_CHUNKS__MAX_PAGES"] = "1"
    start(system, watch)
    system.spawn_slot(0, **watch.port_for("device"))
    system.submit(scan(tmp_path, 6))
    system.in_work()
    watch.is_quiet()
    for lost in range(1, 7):
        [chunk] = system.in_work()
        system.child("cpu0").send_signal(signal.SIGKILL)
        system.rows.expire(chunk.id)
        eventually(lambda lost=lost: [outcome for outcome, _ in system.attempts()].count("lost") == lost)
    gate.touch()
    system.kill("cpu0")
    eventually(lambda: system.rows.sql("SELECT 1 FROM device WHERE lease_until < now()"))
    watch.fires(*alerts)


@causes("MunimentDeviceMemory", "MunimentFailedGate")
def test_an_engine_takes_more_than_it_may(system, watch, tmp_path, alerts):
    system.simulate(folder=str(tmp_path), accelerator=accelerator(), sizes={"840x420": "leak"})
    system.environment |= {
        "MUNIMENT_DEVICES__ACCELERATOR_ENGINE": "simulated",
        "MUNIMENT_DEVICE_BYTES": str(CAPACITY_BYTES),
        "MUNIMENT_DEVICES__MAX_RUNNER_BYTES": "1",
    }
    start(system, watch)
    system.spawn("accelerator", "workers.worker", "--device", "cuda:sim0", **watch.port_for("accelerator"))
    eventually(lambda: system.rows.sql("SELECT 1 FROM device WHERE engine IS NOT NULL"))
    by_card = {"lane": "gpu"}
    assert finished(system, tmp_path, 1, options=by_card).state is JobState.SUCCEEDED
    watch.is_quiet()
    assert finished(system, tmp_path, 15, options=by_card).state is JobState.SUCCEEDED
    # Each page keeps a part of the device; with the fifth little is left.
    assert finished(system, tmp_path, 5, size=(420, 210), options=by_card).state is JobState.SUCCEEDED
    watch.fires(*alerts)


@causes("MunimentDisk")
def test_temporary_files_fill_their_disk(system, tmp_path, alerts):
    watch, folder = Watch(tmp_path), tmp_path / "small"
    folder.mkdir()
    process = system.spawn(
        "metrics",
        "pipeline.monitoring.exporter",
        prefix=small_disk(folder),
        TMPDIR=str(folder),
        **watch.port_for("metrics"),
    )
    watch.is_quiet()
    Path(f"/proc/{process.pid}/root{folder}/filler").write_bytes(bytes(60 * 2**20))
    watch.fires(*alerts)


@contextmanager
def closed_to_all(url):
    """Let nobody connect to a database, and end the connections that there are."""
    where = make_url(url)
    server = where.set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{where.database}" ALLOW_CONNECTIONS false')
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [where.database]
        )
        yield
        connection.execute(f'ALTER DATABASE "{where.database}" ALLOW_CONNECTIONS true')


@causes("MunimentNoRows", "MunimentDispatchPutOff")
def test_the_database_is_away(system, watch, database_url, alerts):
    system.spawn_dispatcher(0, **watch.port_for("dispatcher"), MUNIMENT_DISPATCHER__POLL="PT0.1S")
    watch.is_quiet()
    with closed_to_all(database_url):
        for more in (1, 12):
            logged(system, "dispatch_put_off", more=more)
            watch.scrape()
        watch.fires(*alerts)


@causes("MunimentNoRows", "MunimentProcessDown")
def test_nobody_reads_the_rows(system, watch, alerts):
    watch.is_quiet()
    system.kill("metrics")
    watch.fires(*alerts)


@pytest.mark.parametrize("alert", shipped_alerts())
def test_each_alert_is_caused(alert):
    assert alert in CAUSED
