"""Holds the work back while a fault waits for its victim, so that on a slow machine it does not run away from it."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

LONGEST_CLOSED = timedelta(seconds=10)
"""Then a page or two may pass: a runner that finishes none for `leases.stall` is killed."""
_OPEN = timedelta(seconds=0.2)


class Gate:
    """The simulated engine's gate, a file: pages wait until it is there."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._closed_since: float | None = None
        path.touch()

    def open(self) -> None:
        """Let all pages through."""
        self._closed_since = None
        self._path.touch()

    def hold(self) -> None:
        """Let hardly any page through; to be called again and again meanwhile."""
        now = self._clock()
        if self._closed_since is None or now - self._closed_since > (LONGEST_CLOSED + _OPEN).total_seconds():
            self._closed_since = now
        if now - self._closed_since > LONGEST_CLOSED.total_seconds():
            self._path.touch()
        else:
            self._path.unlink(missing_ok=True)
