"""The fixtures of `conftest.py` give each test services of its own."""

import io

import psycopg
import pytest
import redis

from pipeline.embedded.prepare import store_client
from pipeline.embedded.services import Servers
from pipeline.settings import Settings


@pytest.mark.parametrize("round_", range(3))
def test_a_test_starts_with_an_empty_migrated_database_broker_and_bucket(
    settings: Settings, servers: Servers, round_: int
) -> None:
    url = servers.database.url.get_secret_value().replace("+psycopg", "")
    with psycopg.connect(url) as database:
        assert database.execute("SELECT count(*) FROM job").fetchone() == (0,)
        database.execute("INSERT INTO job (source_uri) VALUES ('s3://box/1.pdf')")
    with redis.Redis.from_url(servers.broker.url.get_secret_value()) as broker:
        assert broker.dbsize() == 0
        broker.set("left", "behind")
    store = store_client(settings.objects)
    assert list(store.list_objects(settings.objects.bucket, recursive=True)) == []
    store.put_object(settings.objects.bucket, "left/behind", io.BytesIO(b"x"), 1)
