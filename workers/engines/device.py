"""Which device the engines of this process compute on, and in what precision."""

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from pipeline.domain.errors import ErrorCode, RecognitionFailed
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import MemoryReading, ReadPage

NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def this_device() -> torch.device:
    """Return the accelerator that this process was given, else the CPU, on one thread.

    A launcher pins each worker to one accelerator by what it lets it see; a CPU slot on a host with accelerators is
    told by its name.
    """
    is_cpu_slot = os.environ.get("MUNIMENT_DEVICE", "").startswith("cpu")
    if torch.cuda.is_available() and not is_cpu_slot:
        return torch.device("cuda", 0)
    torch.set_num_threads(1)
    return torch.device("cpu")


def precision_of(device: torch.device) -> torch.dtype:
    """Return what is fast there: 16 bits on an accelerator; on a CPU, bfloat16 takes twice as long as float32."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def give_back(device: torch.device, outcomes: Iterable[object]) -> None:
    """Return what torch keeps of freed memory to the device, if one of the outcomes is that there was too little."""
    if device.type == "cuda" and any(
        isinstance(outcome, RecognitionFailed) and outcome.code is ErrorCode.OUT_OF_MEMORY for outcome in outcomes
    ):
        torch.cuda.empty_cache()


def read_together(
    pages: Iterable[PageImage],
    read: Callable[[Sequence[PageImage]], Sequence[ReadPage | RecognitionFailed]],
    device: torch.device,
) -> Iterator[ReadPage]:
    """Read pages at once and yield each, in the order given; their pixels are let go of before the first is taken.

    Raises: RecognitionFailed, for a page that failed; the iterator goes on with the next one.
    """
    together = list(pages)
    numbers = [page.number for page in together]
    found = read(together)
    together.clear()
    give_back(device, found)
    return map(_given, numbers, found)


def _given(number: int, found: ReadPage | RecognitionFailed) -> ReadPage:
    """Return a page that was read, or raise its failure with its number. Raises: RecognitionFailed."""
    if isinstance(found, RecognitionFailed):
        raise RecognitionFailed(found.code, f"page {number}: {found.message}")
    return found


class CudaMemory:
    """MemoryGauge over what torch's allocator says."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        """Begin a new measurement of the peak."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def read(self) -> MemoryReading:
        """Return what is held."""
        return MemoryReading(
            held_bytes=torch.cuda.memory_allocated(self._device),
            peak_bytes=torch.cuda.max_memory_allocated(self._device),
            reserved_bytes=torch.cuda.max_memory_reserved(self._device),
        )

    def give_back(self) -> None:
        """Return what is kept of freed memory to the device."""
        gc.collect()
        torch.cuda.empty_cache()


def gauge_of(device: torch.device) -> CudaMemory | None:
    """Return what measures a device's memory; None for the CPU, whose memory is the process's."""
    return CudaMemory(device) if device.type == "cuda" else None
