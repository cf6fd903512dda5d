"""Finds this host's accelerators by NVML, without torch: whole GPUs and MIG slices, as CUDA_VISIBLE_DEVICES allows.

NVML counts GPUs in the order of their PCI bus, and so does CUDA where CUDA_DEVICE_ORDER says `PCI_BUS_ID`, which every
worker is given. Each worker is given its device by UUID: an index would mean another one as soon as a card is gone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import structlog

log = structlog.get_logger()
Item = TypeVar("Item")
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
_SHORTEST_NAME = 8


class Nvml(Protocol):
    """The functions of the module `pynvml` that are called here; handles are theirs."""

    NVMLError: type[Exception]

    def nvmlDeviceGetCount(self) -> int: ...  # noqa: D102, N802 - their names
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: D102, N802
    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any: ...  # noqa: D102, N802
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Sequence[Any]: ...  # noqa: D102, N802
    def nvmlDeviceGetUUID(self, handle: Any) -> str: ...  # noqa: D102, N802
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: D102, N802
    def nvmlDeviceGetMigMode(self, handle: Any) -> Sequence[int]: ...  # noqa: D102, N802
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int: ...  # noqa: D102, N802
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int) -> Any: ...  # noqa: D102, N802


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A GPU, or a slice of one, that one process can use."""

    uuid: str
    """`GPU-...` or `MIG-...`, as CUDA_VISIBLE_DEVICES takes it."""
    gpu_uuid: str
    """Of the GPU that a slice is part of; its own for a whole GPU."""
    gpu_index: int
    """By PCI bus."""
    total_bytes: int


def load_nvml() -> Nvml | None:
    """Return NVML, ready for use; None where the package or the driver is missing."""
    try:
        import pynvml  # noqa: PLC0415 - only in the extra `gpu`
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.info("no_accelerators", reason=str(error))
        return None
    nvml: Nvml = pynvml
    return nvml


def accelerators(nvml: Nvml | None, visible: str | None) -> list[Accelerator]:
    """Return what may be used, in its order.

    Args: visible is the value of CUDA_VISIBLE_DEVICES, None where it is not set.
    """
    if nvml is None:
        return []
    found = list(_found(nvml))
    return found if visible is None else _visible(found, visible)


def names_of(found: Sequence[Accelerator]) -> dict[str, Accelerator]:
    """Return each accelerator by a name that stays the same, whatever else is in the host: `cuda:5f1c2a3b`."""
    digits = [accelerator.uuid.partition("-")[2].replace("-", "") for accelerator in found]
    length = next(
        (size for size in range(_SHORTEST_NAME, 33) if len({name[:size] for name in digits}) == len(found)), 32
    )
    return {f"cuda:{name[:length]}": accelerator for name, accelerator in zip(digits, found, strict=True)}


def _found(nvml: Nvml) -> Iterator[Accelerator]:
    for index in range(nvml.nvmlDeviceGetCount()):
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        gpu_uuid = nvml.nvmlDeviceGetUUID(gpu)
        # A GPU that is cut up can't be used as a whole, even while it has no slices.
        for handle in _slices(nvml, gpu) if _is_cut_up(nvml, gpu) else [gpu]:
            yield Accelerator(
                uuid=nvml.nvmlDeviceGetUUID(handle),
                gpu_uuid=gpu_uuid,
                gpu_index=index,
                total_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
            )


def _is_cut_up(nvml: Nvml, gpu: Any) -> bool:
    modes = unless_unsupported(nvml, partial(nvml.nvmlDeviceGetMigMode, gpu))
    return modes is not None and modes[0] == 1


def _slices(nvml: Nvml, gpu: Any) -> list[Any]:
    numbers = range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu))
    handles = [
        unless_unsupported(nvml, partial(nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, number)) for number in numbers
    ]
    return [handle for handle in handles if handle is not None]


def unless_unsupported(nvml: Nvml, ask: Callable[[], Item]) -> Item | None:
    """Return the answer; None where this GPU has no such thing, which NVML says by an error."""
    try:
        return ask()
    except nvml.NVMLError:
        return None


def _visible(found: Sequence[Accelerator], visible: str) -> list[Accelerator]:
    """Return those that are named, in that order; as with CUDA, the first name that means nothing ends the list."""
    chosen: list[Accelerator] = []
    for entry in filter(None, (part.strip() for part in visible.split(","))):
        named = [accelerator for accelerator in found if _is_named(accelerator, entry)]
        whole = {accelerator.gpu_index for accelerator in named}
        if len(whole) != 1 or any(accelerator in chosen for accelerator in named):
            log.warning("accelerator_not_found", entry=entry)
            break
        chosen += named
    return chosen


def _is_named(accelerator: Accelerator, entry: str) -> bool:
    """Whether an entry means it: an index, or the beginning of a UUID. A GPU's means all of its slices."""
    if entry.isdigit():
        return accelerator.gpu_index == int(entry)
    return any(uuid.lower().startswith(entry.lower()) for uuid in (accelerator.uuid, accelerator.gpu_uuid))
