"""What a process asks of the kernel."""

import os
import signal
import subprocess
import sys
from pathlib import Path

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


STAND_BACK = """
import os, sys
from pathlib import Path
from workers.process import stand_back
stand_back(7)
group = Path("/proc/self/autogroup")
print(os.getpriority(os.PRIO_PROCESS, 0), group.read_text().split()[-1] if group.exists() else "none")
"""


def test_a_process_that_stands_back_does_so_with_its_whole_session():
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    argv = [sys.executable, "-c", STAND_BACK]
    process, group = subprocess.run(
        argv, capture_output=True, text=True, check=True, start_new_session=True
    ).stdout.split()
    assert int(process) == min(19, mine + 7)
    assert group == (process if Path("/proc/self/autogroup").exists() else "none")
