"""Whether a device is free of the last runner, so that the next one may start on it."""

import time
from datetime import timedelta

from workers.device_view import DeviceView
from workers.runner_process import Runner


class Vacancy:
    """What is known of a device between two runners: a driver clears away late what a dead process held."""

    def __init__(self, view: DeviceView | None, *, tolerance_bytes: int, patience: timedelta) -> None:
        """Args: view is None where there is no driver to ask; patience is how long it may take to clear away."""
        self._view = view
        self._tolerance_bytes = tolerance_bytes
        self._patience = patience
        self._lingering: Runner | None = None
        self._idle_bytes: int | None = None
        self._deadline: float | None = None

    @property
    def taken_bytes(self) -> int:
        """Return what others held of the device when the last runner was started on it."""
        return self._idle_bytes or 0

    def await_end_of(self, runner: Runner) -> None:
        """Take note of a runner that was killed and has not gone away."""
        self._lingering = runner

    def is_reached(self) -> bool:
        """Whether nothing is left. Raises: TimeoutError, if that is not so long after it was first asked."""
        if self._lingering and not self._lingering.is_gone():
            raise TimeoutError(f"runner {self._lingering.pid} was killed and is still there")
        self._lingering = None
        if self._view is None:
            return True
        self._deadline = self._deadline or time.monotonic() + self._patience.total_seconds()
        holders, used_bytes = self._view.holders(), self._view.used_bytes() or 0
        idle_bytes = used_bytes if self._idle_bytes is None else self._idle_bytes
        if not holders and used_bytes <= idle_bytes + self._tolerance_bytes:
            self._idle_bytes, self._deadline = idle_bytes, None
            return True
        if time.monotonic() > self._deadline:
            self._deadline = None
            whose = f"by processes {', '.join(map(str, holders))}" if holders else "by processes that can't be seen"
            raise TimeoutError(f"{used_bytes} bytes of the device are held {whose}")
        return False
