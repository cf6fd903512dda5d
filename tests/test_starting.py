"""What keeps a process from beginning is said with its setting and what to do, and each cause has an exit code."""

import json
import os
import subprocess
import sys

import psycopg
import pytest
import redis
from pydantic import SecretStr

from pipeline.adapters.database import revisions, upgrade
from pipeline.adapters.fitness import check_database, check_store
from pipeline.embedded.ports import PortPicker
from pipeline.embedded.prepare import store_client
from pipeline.settings import BrokerSettings, DatabaseSettings, SettingsError
from pipeline.starting import ExitCode, Unfit
from tests.faults.servers import Broker
from workers.broker_check import check_broker

NOBODY_THERE = "127.0.0.1:9"
PROCESSES = {
    "dispatcher": ("dispatcher",),
    "worker": ("worker", "--queues", "io"),
    "launcher": ("launcher",),
    "metrics": ("metrics",),
}


def at(url):
    return DatabaseSettings(url=SecretStr(url))


def test_what_is_fit_is_let_pass(settings):
    check_database(settings.database)
    check_broker(settings)
    check_store(settings.objects)


def test_a_database_that_does_not_answer(database_url):
    away = database_url.rpartition("@")[0] + f"@{NOBODY_THERE}/archive"
    with pytest.raises(Unfit, match=f"^database.url: {NOBODY_THERE}/archive does not answer as muniment: ") as raised:
        check_database(at(away))
    assert raised.value.code is ExitCode.DATABASE
    with pytest.raises(Unfit, match="are name and password right") as raised:
        check_database(at(database_url.replace("muniment:", "muniment:wrong")))
    assert raised.value.code is ExitCode.DATABASE
    with pytest.raises(SettingsError, match=r"^database.url is no URL like "):
        check_database(at("postgres at home"))


def test_a_database_at_another_revision(database_url):
    _, needed = revisions(database_url)
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as owner:
        for found, advice in (("0001", "run `muniment prepare`"), ("9999", "Start the version that upgraded it")):
            owner.execute("UPDATE alembic_version SET version_num = %s", [found])
            with pytest.raises(Unfit, match=f"at revision {found}, .* {needed}.*{advice}") as raised:
                check_database(at(database_url))
            assert raised.value.code is ExitCode.SCHEMA


def test_a_broker_that_does_not_answer_or_would_break_the_rules(settings, monkeypatch):
    away = settings.model_copy(update={"broker": BrokerSettings(url=SecretStr(f"redis://{NOBODY_THERE}/0"))})
    with pytest.raises(Unfit, match=rf"^broker.url: no answer .*\({NOBODY_THERE}/0\)$") as raised:
        check_broker(away)
    assert raised.value.code is ExitCode.BROKER
    other = settings.model_copy(update={"broker": BrokerSettings(url=SecretStr("amqp://guest@localhost//"))})
    with pytest.raises(SettingsError, match=r"^broker.url: amqp:// is not supported, .* second chunk"):
        check_broker(other)
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://elsewhere/0")
    with pytest.raises(SettingsError, match=r"^CELERY_BROKER_URL: .* unset it"):
        check_broker(settings)


def test_a_broker_that_may_drop_what_it_is_given(settings, tmp_path):
    broker = Broker(tmp_path / "valkey")
    try:
        broker.start()
        told = settings.model_copy(update={"broker": BrokerSettings(url=SecretStr(broker.url))})
        check_broker(told)
        with redis.Redis.from_url(broker.url) as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(Unfit, match=r"^broker: maxmemory-policy is allkeys-lru, .* noeviction \(127\.") as raised:
            check_broker(told)
    finally:
        broker.close()
    assert raised.value.code is ExitCode.BROKER


@pytest.fixture
def read_only(objects):
    """The bucket, with a policy that takes the right to write from everybody."""
    client, resource = store_client(objects), f"arn:aws:s3:::{objects.bucket}/*"
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": resource}
    client.set_bucket_policy(objects.bucket, json.dumps({"Version": "2012-10-17", "Statement": [deny]}))
    yield objects
    client.delete_bucket_policy(objects.bucket)


def test_a_bucket_that_is_missing_forbidden_or_read_only(objects, read_only):
    for changed, found in (
        ({"bucket": "no-such-bucket"}, "no bucket no-such-bucket.*`muniment prepare` makes it"),
        ({"endpoint": NOBODY_THERE}, "did not answer"),
        ({"secret_key": SecretStr("wrong")}, "are objects.access_key and objects.secret_key right"),
        ({}, "could not be written and read again"),
    ):
        with pytest.raises(Unfit, match=found) as raised:
            check_store(read_only.model_copy(update=changed))
        assert raised.value.code is ExitCode.STORE


def start(environment, *command, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline.cli", *command],
        env={**os.environ, **environment, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_ends_by_the_code_of_what_it_lacks(environment, empty_database_url, name, tmp_path):
    bare = {
        "MUNIMENT_DATABASE__URL": empty_database_url,
        "MUNIMENT_START__PATIENCE": "0",
        "MUNIMENT_METRICS__PORT": str(PortPicker(tmp_path).pick()),
        "MUNIMENT_DEVICES__LOCK_FOLDER": str(tmp_path),
    }
    process = start(environment, *PROCESSES[name], **bare)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == ExitCode.SCHEMA, printed
    assert printed.splitlines()[-1].startswith(f"muniment {name}: database.url: the schema is at revision none")


def test_a_process_waits_for_a_migration_that_is_still_under_way(environment, empty_database_url):
    process = start(environment, "dispatcher", MUNIMENT_DATABASE__URL=empty_database_url, MUNIMENT_START__PATIENCE="60")
    lines = iter(process.stdout.readline, "")
    assert any("start_waits" in line for line in lines)
    upgrade(empty_database_url)
    assert any("dispatcher_started" in line for line in lines)
    process.terminate()
    process.stdout.close()
    assert process.wait(30) == 0
