"""The lock on a device, held by a process and by whatever it forked."""

import os
import signal
import subprocess
import sys

import pytest

from tests.waiting import eventually
from workers.process import DeviceLocked, lock_device

HOLD_AND_FORK = """
import os, sys, time
from pathlib import Path
from workers.process import lock_device
lock_device(Path(sys.argv[1]))
if os.fork() == 0:
    time.sleep(600)
print("held", flush=True)
time.sleep(600)
"""


def test_a_lock_is_held_until_the_last_that_was_forked_is_gone(tmp_path):
    path = tmp_path / "device.lock"
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_FORK, str(path)], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert owner.stdout.readline() == b"held\n"
        with pytest.raises(DeviceLocked, match=f"held by process {owner.pid}"):
            lock_device(path)
        owner.kill()
        owner.wait()
        with pytest.raises(DeviceLocked):
            lock_device(path)
    finally:
        os.killpg(owner.pid, signal.SIGKILL)
        owner.stdout.close()

    def is_free():
        try:
            os.close(lock_device(path))
        except DeviceLocked:
            return False
        return True

    eventually(is_free)
