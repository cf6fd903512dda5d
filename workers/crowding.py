"""Whether somebody else takes memory of a device while its runner is at rest: then nothing may be claimed for it."""

from workers.device_view import DeviceView


class Crowding:
    """What is known of the memory of a device beside that of its runner."""

    def __init__(self, view: DeviceView | None, *, tolerance_bytes: int) -> None:
        """Args: view is None where there is no driver to ask; tolerance_bytes is what a context grows by with time."""
        self._view = view
        self._tolerance_bytes = tolerance_bytes
        self._warm_bytes: int | None = None

    def warm(self) -> None:
        """Take note of what is used of the device with a runner that is warm and rests."""
        self._warm_bytes = self._view.used_bytes() if self._view else None

    def problem(self, runner_pid: int) -> str | None:
        """Say how much more of the device is held than when the runner was warm, and by whom; nothing, if it is not."""
        used_bytes = self._view.used_bytes() if self._view else None
        if self._view is None or used_bytes is None or self._warm_bytes is None:
            return None
        taken_bytes = used_bytes - self._warm_bytes
        holders = self._view.holders()
        # Seen alone on the device, it is the runner that has grown; its own bounds judge that.
        if taken_bytes <= self._tolerance_bytes or holders == (runner_pid,):
            return None
        others = [str(pid) for pid in holders if pid != runner_pid]
        whose = f"processes {', '.join(others)}" if others else "processes that can't be seen from here"
        return f"{taken_bytes / 2**20:.0f} MiB of it are held by {whose}"
