"""Which of the host's cores a process runs on (sched_setaffinity(2)); what it starts inherits that."""

import os
from collections.abc import Collection

from pipeline.settings import SettingsError


def keep_to(core: int) -> None:
    """Run on this core alone. Raises: SettingsError, if this process may not, or there is no such core."""
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        raise SettingsError(f"core {core} can't be had (devices.cpu_cores): {error.strerror}") from error


def keep_off(cores: Collection[int]) -> None:
    """Run on none of these cores. Raises: SettingsError, if that leaves none."""
    left = os.sched_getaffinity(0).difference(cores)
    if not left:
        raise SettingsError("devices.cpu_cores leaves no core to what else runs here")
    os.sched_setaffinity(0, left)


def check_to_be_had(cores: Collection[int]) -> None:
    """Try whether `keep_to` would succeed, for each core. Raises: SettingsError."""
    before = os.sched_getaffinity(0)
    try:
        for core in cores:
            keep_to(core)
    finally:
        os.sched_setaffinity(0, before)
