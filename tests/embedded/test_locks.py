"""Locks that the kernel gives back."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.embedded.locks import FileLock, held
from tests.waiting import eventually

HOLDER = """
import sys, time
from pathlib import Path
from pipeline.embedded.locks import FileLock
assert FileLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    first = FileLock.acquire(tmp_path / "lock")
    assert first
    assert FileLock.acquire(tmp_path / "lock") is None
    first.release()
    again = FileLock.acquire(tmp_path / "lock")
    assert again
    again.release()


def test_a_shared_lock_keeps_out_exclusive_holders_only(tmp_path: Path) -> None:
    one = FileLock.acquire(tmp_path / "lock", shared=True)
    two = FileLock.acquire(tmp_path / "lock", shared=True)
    assert one
    assert two
    one.release()
    assert FileLock.acquire(tmp_path / "lock") is None
    two.release()


def test_waiting_for_a_lock_ends_with_an_error(tmp_path: Path) -> None:
    with (
        held(tmp_path / "lock", within=timedelta()),
        pytest.raises(TimeoutError, match="locked"),
        held(tmp_path / "lock", within=timedelta(seconds=0.05)),
    ):
        pass


def test_a_killed_holder_gives_the_lock_back(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path / "lock"], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        assert FileLock.acquire(tmp_path / "lock") is None
        holder.kill()
    lock = eventually(lambda: FileLock.acquire(tmp_path / "lock"))
    lock.release()
