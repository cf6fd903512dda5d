"""What a test may break: servers and ways to them that are its own. What breaks none shares those of the run."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from pipeline.settings import ObjectSettings
from tests.faults.proxy import Proxy
from tests.faults.servers import Broker, Database

Own = TypeVar("Own", Broker, Database)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own; a module uses it by saying that its `broker_url` is this one's."""
    yield from _running(Broker(tmp_path / "valkey"))


@pytest.fixture
def own_database(tmp_path: Path) -> Iterator[Database]:
    """A database server of the test's own, used in the same way."""
    yield from _running(Database(tmp_path / "postgres"))


def _running(server: Own) -> Iterator[Own]:
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def way_to_the_store(objects: ObjectSettings, tmp_path: Path) -> Iterator[Proxy]:
    """A proxy before the run's store; those that are told `through_the_proxy` go by it, the test itself doesn't."""
    assert objects.endpoint
    host, _, port = objects.endpoint.partition(":")
    with Proxy(host, int(port), folder=tmp_path) as proxy:
        yield proxy


@pytest.fixture
def way_to_the_database(database_url: str, tmp_path: Path) -> Iterator[Proxy]:
    """The same before the run's database server."""
    from sqlalchemy.engine import make_url

    url = make_url(database_url)
    assert url.host
    assert url.port
    with Proxy(url.host, url.port, folder=tmp_path) as proxy:
        yield proxy
