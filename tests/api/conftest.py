"""Real servers of the API, each in a process of its own."""

import json
import os
import secrets
import signal
import subprocess
import sys
from functools import partial

import pytest
import urllib3
from pydantic import SecretStr

from pipeline.adapters.api_keys import PostgresApiKeys
from pipeline.adapters.objects import S3Objects
from pipeline.domain import keys
from pipeline.domain.api_keys import KeyGrant, Scope
from pipeline.domain.serialisation import encode_segment
from pipeline.embedded.composition import server_environment
from pipeline.embedded.ports import PortPicker
from pipeline.embedded.prepare import prepare_bucket
from pipeline.embedded.services import Servers
from pipeline.ports.chunks import Measured
from pipeline.settings import BrokerSettings, DatabaseSettings, Settings
from tests.builders import block, page
from tests.conftest import BROKER_DATABASES, TEMPLATE, named
from tests.rows import DEVICE, Rows, entry
from tests.system import ROOT
from tests.waiting import eventually
from workers.process import die_with_parent

ALL = frozenset(Scope)


class Answer:
    """What a server said."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.data

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["code"]


class Caller:
    """Asks with one key."""

    def __init__(self, url, token, pool):
        self.url = url
        self.token = token
        self.pool = pool

    def __call__(self, method, path, *, json=None, body=None, headers=None, fields=None):
        given = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        more = {"json": json} if json is not None else {"fields": fields} if fields is not None else {"body": body}
        return Answer(
            self.pool.request(method, self.url + path, headers=given | (headers or {}), redirect=False, **more)
        )

    def stream(self, path, **headers):
        given = {"Authorization": f"Bearer {self.token}"} | headers
        return self.pool.request("GET", self.url + path, headers=given, preload_content=False)


class Api:
    """One server process."""

    def __init__(self, rows, settings, environment, folder):
        self.rows = rows
        self.settings = settings
        self.keys = PostgresApiKeys(rows.engine)
        self.objects = S3Objects(settings.objects)
        self.environment = {**os.environ, **environment}
        self.folder = folder
        # Somebody else may come first to a port, on a machine that runs several tests: each looks for its own.
        ports = PortPicker(folder)
        self.ports = {name: ports.pick() for name in ("API__PORT", "API__ADMIN_PORT", "METRICS__PORT")}
        self.pool = urllib3.PoolManager(maxsize=32, retries=False, timeout=30)
        self.process = None

    url = property(lambda self: f"http://127.0.0.1:{self.ports['API__PORT']}")
    admin_url = property(lambda self: f"http://127.0.0.1:{self.ports['API__ADMIN_PORT']}")
    metrics_url = property(lambda self: f"http://127.0.0.1:{self.ports['METRICS__PORT']}")

    def start(self, **environment):
        told = {f"MUNIMENT_{name}": str(port) for name, port in self.ports.items()}
        with (self.folder / "api.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pipeline.api.server"],
                env=self.environment | told | environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - tests fork from their main thread
            )
        eventually(self.answers, within=120)
        return self

    def answers(self):
        assert self.process.poll() is None, self.log()[-3000:]
        try:
            return self.pool.request("GET", self.url + "/healthz").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(60) == 0, self.log()[-3000:]
            self.process = None
        self.pool.clear()
        self.rows.engine.dispose()

    def log(self):
        return (self.folder / "api.log").read_text()

    def key(self, *scopes, tenant="museum", lives=None, **grant):
        given = KeyGrant(tenant=tenant, name="of a test", scopes=frozenset(scopes) or ALL, **grant)
        return self.keys.create(given, lives=lives)

    def caller(self, *scopes, admin_port=False, **grant):
        return self.with_token(self.key(*scopes, **grant).token, admin_port=admin_port)

    def with_token(self, token, *, admin_port=False):
        return Caller(self.admin_url if admin_port else self.url, token, self.pool)

    # --- jobs in the rows, as the pipeline would leave them

    def claimed(self, pages, **more):
        """Insert a job with one chunk of so many pages, and return both, the chunk in work."""
        job_id = self.rows.running(pages, **more)
        self.rows.sql("UPDATE chunk SET state = 'admitted', dispatched_at = now() WHERE job_id = :id", id=job_id)
        [(chunk_id,)] = self.rows.sql("SELECT id FROM chunk WHERE job_id = :id", id=job_id)
        return job_id, self.rows.chunks.claim(chunk_id, 1, device_id=DEVICE)

    def read(self, *texts, tenant="museum", **more):
        """Insert a job with a page for each text, all read, and their segment in the store."""
        job_id, chunk = self.claimed(len(texts), tenant=tenant, **more)
        key = keys.segment(job_id, chunk.claim.chunk_id, 1, 0)
        pages = [page(number, block(text)) for number, text in enumerate(texts, 1)]
        self.objects.put(key, encode_segment(pages), media_type="application/jsonl")
        self.rows.chunks.record(chunk.claim, [entry(number, segment_key=key) for number in range(1, len(texts) + 1)])
        self.rows.chunks.finish(chunk.claim, Measured())
        return job_id

    def ended(self, *texts, result=b"what was read", **more):
        """Insert a job that has succeeded, with this text for its result."""
        job_id = self.read(*(texts or ("what was read",)), **more)
        key = keys.result(job_id, 3, "document.txt")
        self.objects.put(key, result, media_type="text/plain")
        for state in ("exporting", "delivering"):
            self.rows.sql("UPDATE job SET state = :state WHERE id = :id", state=state, id=job_id)
        self.rows.sql(
            "UPDATE job SET state = 'succeeded', finished_at = now(),"
            " result_keys = jsonb_build_object('text', CAST(:key AS text)) WHERE id = :id",
            key=key,
            id=job_id,
        )
        return job_id

    # --- what lies in the store

    def stored(self, job_id):
        """Return what was handed in for a job."""
        [row] = self.rows.sql("SELECT upload_key FROM job WHERE id = :id", id=job_id)
        with self.objects.get(row.upload_key) as pieces:
            return b"".join(pieces)

    def uploads(self):
        """Return the keys of what was handed in, whole or begun."""
        client = self.objects._client
        begun = client._list_multipart_uploads(self.settings.objects.bucket).uploads
        there = client.list_objects(self.settings.objects.bucket, prefix="uploads/", recursive=True)
        return {upload.object_name for upload in begun} | {item.object_name for item in there}

    def actors(self, job_id, kind):
        """Return who is said to have done it."""
        found = "SELECT actor FROM event WHERE job_id = :id AND kind = :kind ORDER BY id"
        return [row.actor for row in self.rows.sql(found, id=job_id, kind=kind)]


@pytest.fixture(scope="session")
def shared_settings(services, _on_database_server, xdist_worker):
    """A database, a broker number and a bucket that all tests of the API in this process share: starting takes long."""
    number, workers = xdist_worker
    name = f"api_{number}"
    _on_database_server(f'CREATE DATABASE "{name}" TEMPLATE "{TEMPLATE}" STRATEGY file_copy')
    objects = services.objects.model_copy(update={"bucket": f"api-{number}"})
    prepare_bucket(objects)
    broker = services.broker.url.get_secret_value().rpartition("/")[0]
    yield Settings(
        database=DatabaseSettings(url=SecretStr(named(services.database, name))),
        broker=BrokerSettings(url=SecretStr(f"{broker}/{BROKER_DATABASES - workers + number}")),
        objects=objects,
    )
    _on_database_server(f'DROP DATABASE "{name}" WITH (FORCE)')


def over(settings, folder):
    """Return a server over these services, not started."""
    servers = Servers(database=settings.database, broker=settings.broker, objects=settings.objects)
    environment = {**server_environment(folder / "home", servers), "MUNIMENT_CONFIG": os.devnull}
    return Api(Rows(settings.database.url.get_secret_value()), settings, environment, folder)


@pytest.fixture(scope="session")
def api(shared_settings, tmp_path_factory):
    """The server that all tests in this process share; each has tenants of its own."""
    made = over(shared_settings, tmp_path_factory.mktemp("api"))
    yield made.start(
        MUNIMENT_API__INLINE_BYTES="2000",
        MUNIMENT_SOURCES__BUCKETS='["archive"]',
        MUNIMENT_SOURCES__TENANT_BUCKETS='{"owner": ["owned"]}',
        MUNIMENT_LIMITS__MAX_FILE_BYTES="30000000",
    )
    made.stop()


@pytest.fixture
def another_api(shared_settings, tmp_path):
    """A server of the test's own over the same services, for the test to start as it likes."""
    made = over(shared_settings, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def tenant():
    """The name of a tenant that no other test has."""
    return f"museum-{secrets.token_hex(4)}"


@pytest.fixture
def museum(api, tenant):
    """Somebody who may do everything for that tenant."""
    return api.caller(tenant=tenant)


@pytest.fixture
def library(api, tenant):
    """Somebody who may do everything for another tenant."""
    return api.caller(tenant=f"library-{tenant}")
