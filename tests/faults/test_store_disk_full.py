"""The disk of the embedded store is full, and later is not: a disk in memory, mounted for the server's eyes alone."""

import io
import os
from pathlib import Path

import pytest
from minio.error import S3Error

from pipeline.domain.states import JobState
from pipeline.embedded.prepare import store_client
from tests.faults.servers import Store
from tests.small_disk import small_disk
from tests.system import scan
from tests.waiting import eventually


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "seaweed"
    data = folder / "data"
    data.mkdir(parents=True)
    store = Store(folder, prefix=small_disk(data))
    try:
        store.start()
        yield store
    finally:
        store.close()


@pytest.fixture
def objects(store):
    return store.settings


def fill(store):
    """Leave the store no room for another object; return the file that takes it."""
    filler = Path(f"/proc/{store.pid}/root{store.spec.folder}/data/filler")
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    client = store_client(store.settings)
    for size in (1 << 20, 1 << 16, 1 << 12, 1 << 8):
        try:
            while True:
                client.put_object(store.settings.bucket, f"fill/{os.urandom(8).hex()}", io.BytesIO(bytes(size)), size)
        except S3Error:
            continue
    return filler


def test_a_full_disk_costs_attempts_and_no_page(system, store, tmp_path):
    gate = system.simulate_gate()
    system.start()
    job_id = system.submit(scan(tmp_path, 5))
    system.in_work()
    filler = fill(store)
    gate.touch()
    eventually(lambda: ("failed", "store_unavailable") in system.attempts())
    filler.unlink()
    # The store takes up to half a minute to find that there is room again.
    status = system.finished(job_id, within=180)
    assert (status.state, status.outcomes) == (JobState.SUCCEEDED, {"recognised": 5})
    system.assert_whole(job_id, 5)
    assert set(system.attempts()) == {("done", None), ("failed", "store_unavailable")}
