"""Backup and restore as docs/deploy.md tells it: a dump, then the bucket; the broker is thrown away."""

import subprocess

import pytest
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from pipeline.domain.states import JobState
from pipeline.embedded.binaries import postgres_programs
from pipeline.embedded.composition import server_environment
from pipeline.embedded.prepare import create_database, prepare_bucket
from pipeline.embedded.services import Servers
from pipeline.settings import BrokerSettings, DatabaseSettings, Settings
from tests.system import System, scan


def postgres(program, *arguments):
    subprocess.run([postgres_programs(None) / program, *arguments], check=True, capture_output=True)


def plain(url):
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def elsewhere(servers, another_broker, _on_database_server, tmp_path):
    """Return an empty database, an empty broker, an empty bucket, and a system over them."""
    database = make_url(servers.database.url.get_secret_value())
    url = database.set(database=f"{database.database}_restored").render_as_string(hide_password=False)
    create_database(url)
    objects = servers.objects.model_copy(update={"bucket": f"{servers.objects.bucket}-restored"})
    prepare_bucket(objects)
    restored = Servers(
        database=DatabaseSettings(url=SecretStr(url)),
        broker=BrokerSettings(url=SecretStr(another_broker())),
        objects=objects,
    )
    settings = Settings(database=restored.database, broker=restored.broker, objects=restored.objects)
    folder = tmp_path / "restored"
    folder.mkdir()
    made = System(settings, {**server_environment(folder / "home", restored), "MUNIMENT_CONFIG": "/dev/null"}, folder)
    yield made
    made.stop()
    _on_database_server(f'DROP DATABASE "{make_url(url).database}" WITH (FORCE)')


def copy_bucket(source, target):
    for item in source.listing(""):
        with source.get(item.key) as pieces:
            target.put(item.key, pieces, media_type="application/octet-stream")


def test_what_was_finished_is_there_and_what_was_in_work_goes_on(system, elsewhere, tmp_path):
    gate = system.simulate_gate()
    gate.touch()
    system.start()
    finished = system.submit(scan(tmp_path, 3))
    assert system.finished(finished).state is JobState.SUCCEEDED
    gate.unlink()
    in_work = system.submit(scan(tmp_path, 7, name="in-work.pdf"))
    system.in_work()

    dump = tmp_path / "muniment.dump"
    postgres("pg_dump", "--format=custom", f"--file={dump}", plain(system.settings.database.url.get_secret_value()))
    copy_bucket(system.objects, elsewhere.objects)
    for name in list(system.processes):
        system.kill(name)

    url = elsewhere.settings.database.url.get_secret_value()
    postgres("pg_restore", "--exit-on-error", f"--dbname={plain(url)}", dump)
    assert elsewhere.document(finished)["page_count"] == 3
    elsewhere.start()
    assert elsewhere.finished(in_work).state is JobState.SUCCEEDED
    elsewhere.assert_whole(in_work, 7)
