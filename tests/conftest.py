"""The real services, started once for each run of pytest and shared by its workers; what each test gets is its own.

They end with the last pytest process that uses them, also when all of those are killed.
"""

import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from pipeline.embedded.composition import server_environment
from pipeline.embedded.locks import FileLock, held
from pipeline.embedded.services import ServerOptions, Servers
from pipeline.embedded.serving import ATTACHED_LOCK, StackOptions
from pipeline.embedded.stack import read_state, share
from pipeline.settings import BrokerSettings, DatabaseSettings, ObjectSettings, Settings

if TYPE_CHECKING:
    from tests.rows import Rows
    from tests.system import System

BROKER_DATABASES = 512
TEMPLATE = "muniment_template"
FOR_TESTS = StackOptions(
    only_servers=True,
    servers=ServerOptions(fsync=False, max_connections=200, broker_databases=BROKER_DATABASES),
)


def pytest_configure() -> None:
    """Keep out what the developer's shell, working directory and running stack say."""
    for name in [name for name in os.environ if name.startswith("MUNIMENT_")]:
        del os.environ[name]
    os.environ["MUNIMENT_HOME"] = os.environ["MUNIMENT_CONFIG"] = os.devnull


@pytest.fixture(scope="session")
def xdist_worker() -> tuple[int, int]:
    """The number of this pytest process, from 0, and how many there are."""
    name = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    return int(name.removeprefix("gw")), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Valkey, Postgres with a migrated template database, and SeaweedFS."""
    folder = tmp_path_factory.getbasetemp()
    home = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "services"
    handle = share(home, FOR_TESTS)
    try:
        known = Settings.model_validate(handle.state.settings)
        servers = Servers(database=known.database, broker=known.broker, objects=known.objects)
        with held(home / "template.lock", within=timedelta(seconds=60)):
            _make_template(servers, done=home / "template.done")
        yield servers
    finally:
        handle.stop()
        _remove_data(home)


def _make_template(servers: Servers, *, done: Path) -> None:
    from pipeline.embedded.prepare import prepare_database

    if not done.exists():
        prepare_database(named(servers.database, TEMPLATE))
        done.touch()


def _remove_data(home: Path) -> None:
    if nobody_attached := FileLock.acquire(home / ATTACHED_LOCK):
        if read_state(home) is None:
            for path in home.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.suffix != ".lock":
                    path.unlink()
        nobody_attached.release()


def named(database: DatabaseSettings, name: str) -> str:
    """Return the URL of another database on the same server."""
    assert database.url
    return database.url.get_secret_value().rpartition("/")[0] + "/" + name


@pytest.fixture(scope="session")
def _on_database_server(services: Servers) -> Iterator[Callable[[str], object]]:
    import psycopg

    url = named(services.database, "postgres").replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection.execute


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def database_url(
    services: Servers,
    _on_database_server: Callable[[str], object],
    _numbers: Iterator[int],
    xdist_worker: tuple[int, int],
) -> Iterator[str]:
    """A database of the test's own with the newest schema, as a URL for SQLAlchemy."""
    name = f"test_{xdist_worker[0]}_{next(_numbers)}"
    _on_database_server(f'CREATE DATABASE "{name}" TEMPLATE "{TEMPLATE}" STRATEGY file_copy')
    yield named(services.database, name)
    _on_database_server(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def empty_database_url(services: Servers, _on_database_server: Callable[[str], object]) -> Iterator[str]:
    """An empty database of the test's own, as a URL for SQLAlchemy."""
    name = f"empty_{secrets.token_hex(8)}"
    _on_database_server(f"CREATE DATABASE {name} STRATEGY file_copy")
    yield named(services.database, name)
    _on_database_server(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def another_broker(services: Servers, _numbers: Iterator[int], xdist_worker: tuple[int, int]) -> Callable[[], str]:
    """Give a broker database that no other running test uses, empty, at each call."""
    import redis

    worker, workers = xdist_worker
    share_of_worker = BROKER_DATABASES // workers
    assert services.broker.url
    server = services.broker.url.get_secret_value().rpartition("/")[0]

    def take() -> str:
        url = f"{server}/{worker * share_of_worker + next(_numbers) % share_of_worker}"
        with redis.Redis.from_url(url) as broker:
            broker.flushdb()
        return url

    return take


@pytest.fixture
def broker_url(another_broker: Callable[[], str]) -> str:
    """A broker database of the test's own, empty."""
    return another_broker()


@pytest.fixture(scope="session")
def _bucket_of_worker(services: Servers, xdist_worker: tuple[int, int]) -> ObjectSettings:
    from pipeline.embedded.prepare import prepare_bucket

    objects = services.objects.model_copy(update={"bucket": f"test-{xdist_worker[0]}"})
    prepare_bucket(objects)
    return objects


@pytest.fixture
def objects(_bucket_of_worker: ObjectSettings) -> ObjectSettings:
    """An empty bucket that no other running test uses, and how to reach it."""
    from minio.deleteobjects import DeleteObject

    from pipeline.embedded.prepare import store_client

    client, bucket = store_client(_bucket_of_worker), _bucket_of_worker.bucket
    found = client.list_objects(bucket, recursive=True)
    failures = client.remove_objects(bucket, [DeleteObject(item.object_name or "") for item in found])
    assert not list(failures)
    return _bucket_of_worker


@pytest.fixture
def bucket(objects: ObjectSettings) -> str:
    """The name of the test's bucket."""
    return objects.bucket


@pytest.fixture
def servers(database_url: str, broker_url: str, objects: ObjectSettings) -> Servers:
    """Where the test's own database, broker and bucket are."""
    return Servers(
        database=DatabaseSettings(url=SecretStr(database_url)),
        broker=BrokerSettings(url=SecretStr(broker_url)),
        objects=objects,
    )


@pytest.fixture
def settings(servers: Servers) -> Settings:
    """Settings that name the test's own database, broker and bucket, and are the defaults otherwise."""
    return Settings(database=servers.database, broker=servers.broker, objects=servers.objects)


@pytest.fixture
def environment(servers: Servers, tmp_path: Path) -> dict[str, str]:
    """The same settings as environment variables, to be added to those of a child process."""
    return {**server_environment(tmp_path / "home", servers), "MUNIMENT_CONFIG": os.devnull}


@pytest.fixture
def rows(database_url: str) -> Iterator["Rows"]:
    """The moves over the test's own database."""
    from tests.rows import Rows

    made = Rows(database_url)
    yield made
    made.engine.dispose()


@pytest.fixture
def system(settings: Settings, environment: dict[str, str], tmp_path: Path) -> Iterator["System"]:
    """A whole system over the test's own servers; the test starts its processes."""
    from tests.system import System

    made = System(settings, environment, tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def flower(system: "System") -> Callable[..., str]:
    """Flower, which listens before any work is done; a function that asks it for a path."""
    from tests.watching_flower import start_flower

    return start_flower(system)
