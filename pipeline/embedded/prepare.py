"""Makes servers usable: the database with the newest schema and the owner's key, and the bucket.

A program of its own, run once at each start of a stack: its imports (0.7 s) run beside the start of the servers, and
what it loads does not stay in the supervisor. It reads one JSON object from stdin: no secret is on a command line.
"""

import io
import json
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import urllib3
from minio import Minio
from minio.commonconfig import ENABLED, Filter
from minio.error import MinioException, S3Error
from minio.lifecycleconfig import AbortIncompleteMultipartUpload, Expiration, LifecycleConfig, Rule
from psycopg import sql
from sqlalchemy.engine import make_url

from pipeline.adapters.api_keys import PostgresApiKeys
from pipeline.adapters.database import connect, upgrade
from pipeline.domain import keys
from pipeline.domain.api_keys import KeyGrant, Scope, parse_token
from pipeline.settings import ObjectSettings

_STORE_WITHIN = timedelta(seconds=30)
_FINAL = {"AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId"}
_UNKNOWN = {"NotImplemented", "MethodNotAllowed", "NotSupported"}
_UPLOADS_RULE = "muniment-uploads"


def prepare_database(url: str) -> None:
    """Create the database that the URL names, where it is missing, and bring its schema to the newest revision."""
    ensure_database(url)
    upgrade(url)


def ensure_database(url: str) -> None:
    """Create the database that the URL names, where it is missing."""
    parts = make_url(url).set(drivername="postgresql")
    try:
        psycopg.connect(parts.render_as_string(hide_password=False), connect_timeout=5).close()
    except psycopg.OperationalError as error:
        # The driver gives no SQLSTATE for errors during connection (psycopg 3.3).
        if f'database "{parts.database}" does not exist' not in str(error):
            raise
        create_database(url)


def create_database(url: str) -> None:
    """Create the database that the URL names, empty."""
    parts = make_url(url).set(drivername="postgresql")
    server = parts.set(database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(parts.database or "")))


def prepare_bucket(objects: ObjectSettings) -> None:
    """Create the bucket where it is missing, and wait until an object can be written and read.

    SeaweedFS answers before its volumes are known again, and the first write to a bucket is slow (0.2 s).
    """
    client = store_client(objects)
    deadline = time.monotonic() + _STORE_WITHIN.total_seconds()
    while True:
        try:
            if not client.bucket_exists(objects.bucket):
                client.make_bucket(objects.bucket)
            client.put_object(objects.bucket, keys.PROBE, io.BytesIO(b"."), 1)
            client.get_object(objects.bucket, keys.PROBE).close()
            return
        except (MinioException, urllib3.exceptions.HTTPError) as error:
            if getattr(error, "code", None) in _FINAL or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def limit_uploads(objects: ObjectSettings, *, whole: timedelta, begun: timedelta) -> bool:
    """Have the store itself remove what is left behind below `uploads/`; whether it takes such rules.

    A backstop for what no process of ours gets to see. Rules of others on the bucket stay as they are.

    Args: whole is counted in days from the arrival of a file, and has to be above what any job may wait; begun is the
        same for uploads in parts that were never finished.
    """
    client = store_client(objects)
    rule = Rule(
        ENABLED,
        rule_id=_UPLOADS_RULE,
        rule_filter=Filter(prefix=keys.UPLOADS),
        expiration=Expiration(days=_days(whole)),
        abort_incomplete_multipart_upload=AbortIncompleteMultipartUpload(days_after_initiation=_days(begun)),
    )
    try:
        known = client.get_bucket_lifecycle(objects.bucket)
        others = [other for other in (known.rules if known else ()) if other.rule_id != _UPLOADS_RULE]
        client.set_bucket_lifecycle(objects.bucket, LifecycleConfig([*others, rule]))
    except S3Error as error:
        if error.code in _UNKNOWN:
            return False
        raise
    return True


def _days(age: timedelta) -> int:
    return max(1, math.ceil(age / timedelta(days=1)))


def admit_owner(url: str, token: str) -> None:
    """Enter the key that lies in the stack's home, which may do everything for the tenant `default`."""
    key = parse_token(token)
    if key is None:
        raise ValueError("the key in secrets.json is none: remove it there, and another is made")
    engine = connect(url, actor="muniment up", pool_size=1)
    try:
        grant = KeyGrant(tenant="default", name="the owner of this stack", scopes=frozenset(Scope))
        PostgresApiKeys(engine).create(grant, key=key)
    finally:
        engine.dispose()


def store_client(objects: ObjectSettings) -> Minio:
    """Return a client that fails at once rather than trying for minutes."""
    return Minio(
        objects.endpoint or "",
        access_key=objects.access_key,
        secret_key=objects.secret_key.get_secret_value(),
        secure=objects.secure,
        region=objects.region,
        http_client=urllib3.PoolManager(retries=False, timeout=10),
    )


def main() -> None:
    """Do what stdin says; an error ends the program with its traceback."""
    wanted: dict[str, Any] = json.loads(sys.stdin.read())
    with ThreadPoolExecutor() as both:
        bucket = both.submit(prepare_bucket, ObjectSettings.model_validate(wanted["objects"]))
        prepare_database(wanted["database_url"])
        admit_owner(wanted["database_url"], wanted["api_key"])
        bucket.result()


if __name__ == "__main__":
    main()
