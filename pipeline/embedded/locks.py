"""Advisory locks on files, which the kernel gives back when their holder dies."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Self


class FileLock:
    """A held `flock`; released by `release`, or by the end of the process however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, path: Path, *, shared: bool = False, within: timedelta = timedelta()) -> Self | None:
        """Take the lock; None where others held it all the time."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + within.total_seconds()
        while True:
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                return cls(descriptor)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return None
                time.sleep(0.02)

    def release(self) -> None:
        """Give it back. Calling twice is safe."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextlib.contextmanager
def held(path: Path, *, within: timedelta) -> Iterator[None]:
    """Hold a lock exclusively for a while. Raises: TimeoutError."""
    lock = FileLock.acquire(path, within=within)
    if lock is None:
        raise TimeoutError(f"{path} has been locked by another process for {within.total_seconds():.0f} s")
    try:
        yield
    finally:
        lock.release()
