"""What the driver says of an accelerator to a process that computes nothing on it: who holds it, how much is used."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from pipeline.engines.simulated import Simulation
from workers.accelerators import VISIBLE_VARIABLE, Nvml, load_nvml, unless_unsupported


class DeviceView(Protocol):
    """A device, seen from outside."""

    def holders(self) -> tuple[int, ...]:
        """Return the processes that compute on it, as far as they can be seen from here."""

    def used_bytes(self) -> int | None:
        """Return what all processes hold of its memory, those included that can't be seen; None if nobody can tell."""


class NvmlView:
    """DeviceView over NVML."""

    def __init__(self, nvml: Nvml, uuid: str) -> None:
        """Raises: the module's NVMLError, if there is no such device."""
        self._nvml = nvml
        self._handle: Any = nvml.nvmlDeviceGetHandleByUUID(uuid)

    def holders(self) -> tuple[int, ...]:
        """Return the processes with a compute context; those of other containers may be missing."""
        found = unless_unsupported(self._nvml, partial(self._nvml.nvmlDeviceGetComputeRunningProcesses, self._handle))
        return tuple(sorted(entry.pid for entry in found or ()))

    def used_bytes(self) -> int | None:
        """Return what the driver counts as used."""
        memory = unless_unsupported(self._nvml, partial(self._nvml.nvmlDeviceGetMemoryInfo, self._handle))
        return None if memory is None else int(memory.used)


def view_of(name: str, environment: Mapping[str, str] = os.environ) -> DeviceView | None:
    """Return the view of the device that this process was pinned to; None where there is no driver to ask.

    Args: name is the device's, `cuda:5f1c2a3b`; a CPU slot has no view.
    """
    if name.startswith("cpu"):
        return None
    if simulated := Simulation.from_environment().device(name):
        return simulated
    uuid = environment.get(VISIBLE_VARIABLE, "")
    nvml = load_nvml() if uuid.startswith(("GPU-", "MIG-")) else None
    return NvmlView(nvml, uuid) if nvml else None
