"""The simulated accelerator's ledger, from several processes."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.domain.errors import ErrorCode
from pipeline.engines.failures import failure_of
from pipeline.engines.simulated_device import SimulatedDevice, SimulatedMemoryError
from tests.waiting import eventually

HOLD = """
import sys, time
from pathlib import Path
from pipeline.engines.simulated_device import SimulatedDevice
held = SimulatedDevice(path=Path(sys.argv[1]), capacity_bytes=100).allocate(30)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def device(tmp_path: Path) -> SimulatedDevice:
    return SimulatedDevice(path=tmp_path / "ledger", capacity_bytes=100)


@pytest.fixture
def other(device: SimulatedDevice):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(device.path)], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_what_nothing_refers_to_is_given_back(device: SimulatedDevice) -> None:
    kept, dropped = device.allocate(30), device.allocate(50)
    assert (device.own_bytes, device.used_bytes()) == (80, 80)
    del dropped
    assert (device.own_bytes, device.own_peak_bytes, device.used_bytes()) == (30, 80, 30)
    device.reset_peak()
    assert device.own_peak_bytes == 30
    del kept
    assert device.holders() == ()
    assert device.seen() == (80, 0)


def test_a_full_device_says_so_as_torch_does(device: SimulatedDevice) -> None:
    kept = device.allocate(80)
    with pytest.raises(SimulatedMemoryError) as caught:
        device.allocate(30)
    assert failure_of(caught.value).code is ErrorCode.OUT_OF_MEMORY
    assert device.used_bytes() == 80
    del kept


def test_two_processes_at_once_are_written_down(device: SimulatedDevice, other: subprocess.Popen[bytes]) -> None:
    assert device.holders() == (other.pid,)
    kept = device.allocate(10)
    assert device.seen() == (40, 1)
    del kept


def test_a_death_is_noticed_late(device: SimulatedDevice, other: subprocess.Popen[bytes]) -> None:
    slow = SimulatedDevice(path=device.path, capacity_bytes=100, teardown=timedelta(hours=1))
    other.kill()
    other.wait()
    assert (slow.used_bytes(), slow.holders()) == (30, (other.pid,))
    eventually(lambda: device.used_bytes() == 0)
