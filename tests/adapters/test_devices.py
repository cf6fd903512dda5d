"""Device rows: held by one, described, asked to drain, and seen with what they read."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.adapters.devices import PostgresDeviceBoard, PostgresDevices
from pipeline.domain.document import Lane
from pipeline.domain.pixel_memory import BatchModel, PixelModel
from pipeline.domain.recognition import EngineIdentity
from pipeline.domain.states import DeviceState
from pipeline.ports.chunks import Measured
from pipeline.ports.devices import DeviceHeld, DeviceInfo, Standing
from tests.rows import DEVICE

INFO = DeviceInfo(host="here", name="cpu:0", kind="cpu", lanes=(Lane.CPU, Lane.GPU))
ENGINE = EngineIdentity(name="rapidocr", revision="3.10", settings_digest="")


@pytest.fixture
def devices(rows):
    return PostgresDevices(rows.engine, lease=timedelta(minutes=1))


@pytest.fixture
def board(rows):
    return PostgresDeviceBoard(rows.engine)


def test_a_device_has_one_holder_who_is_named(devices):
    assert devices.acquire(INFO, "a") is Standing.SERVE
    with pytest.raises(DeviceHeld, match="held by a"):
        devices.acquire(INFO, "b")
    assert devices.renew(INFO.id, "b", DeviceState.FREE) is Standing.LOST
    devices.release(INFO.id, "a")
    assert devices.acquire(INFO, "b") is Standing.SERVE


def test_a_drain_outlasts_the_worker_and_ends_when_it_is_taken_back(devices, board, rows):
    devices.acquire(INFO, "a")
    assert board.set_drain(["cpu:0", "cpu:7"], drain=True) == [INFO.id]
    assert devices.renew(INFO.id, "a", DeviceState.DRAINING) is Standing.DRAIN
    assert rows.admissions.live_devices() == []
    devices.release(INFO.id, "a")
    assert devices.acquire(INFO, "b") is Standing.DRAIN
    assert board.set_drain([INFO.id], drain=False) == [INFO.id]
    assert devices.renew(INFO.id, "b", DeviceState.FREE) is Standing.SERVE
    assert [device.id for device in rows.admissions.live_devices()] == [INFO.id]


def test_a_sick_device_is_not_counted_on(devices, rows):
    devices.acquire(INFO, "a")
    devices.renew(INFO.id, "a", DeviceState.SICK)
    assert rows.admissions.live_devices() == []


def test_what_is_wrong_with_a_device_is_seen_until_it_is_over_and_planning_counts_what_is_free(devices, board, rows):
    info = replace(INFO, kind="cuda", total_bytes=24_000)
    devices.acquire(info, "a")
    assert rows.admissions.live_devices()[0].planned_bytes == 24_000
    devices.renew(info.id, "a", DeviceState.SICK, problem="9 MiB of it are held by processes 7", free_bytes=15_000)
    assert (board.all()[0].problem, board.all()[0].free_bytes) == ("9 MiB of it are held by processes 7", 15_000)
    devices.renew(info.id, "a", DeviceState.FREE, free_bytes=15_000)
    assert board.all()[0].problem is None
    assert rows.admissions.live_devices()[0].planned_bytes == 15_000


def test_the_peak_is_the_highest_of_the_engine_that_is_loaded(devices, board):
    devices.acquire(INFO, "a")
    for peak in (200, 300, 250):
        devices.describe(INFO.id, "a", ENGINE, Measured(baseline_bytes=100, peak_bytes=peak))
    [seen] = board.all()
    assert (seen.engine, seen.revision, seen.baseline_bytes, seen.peak_bytes) == ("rapidocr", "3.10", 100, 300)
    other = EngineIdentity(name="simulated", revision="1", settings_digest="")
    devices.describe(INFO.id, "a", other, Measured(baseline_bytes=10, peak_bytes=20))
    assert board.all()[0].peak_bytes == 20


def test_people_see_what_a_device_reads_and_whether_anybody_holds_it(devices, board, rows):
    devices.acquire(INFO, "a")
    job_id, [chunk] = rows.claimed(3)
    assert chunk.claim.chunk_id
    [seen] = board.all()
    assert seen.device_id == DEVICE
    assert (seen.is_live, seen.holder, seen.job_id, seen.chunk_id) == (True, "a", job_id, chunk.claim.chunk_id)
    rows.read(chunk)
    devices.release(INFO.id, "a")
    [seen] = board.all()
    assert (seen.is_live, seen.holder, seen.job_id, seen.chunk_id) == (False, None, None, None)


def test_what_engines_take_is_told_by_the_devices_that_live(devices, rows):
    model = BatchModel(model=PixelModel(weights_bytes=10**8, bytes_per_pixel=131.5), pages=16)
    devices.acquire(INFO, "a")
    assert devices.needs_of("engine") is None
    devices.publish(INFO.id, "a", {"engine": model})
    assert (devices.needs_of("engine"), devices.needs_of("other")) == (model, None)
    devices.publish(INFO.id, "somebody else", {})
    assert devices.needs_of("engine") == model
    rows.sql('UPDATE device SET needs = \'{"engine": {"by": "guesswork"}}\'')
    assert devices.needs_of("engine") is None
    devices.publish(INFO.id, "a", {"engine": model})
    rows.sql("UPDATE device SET lease_until = now() - interval '1 s'")
    assert devices.needs_of("engine") is None
