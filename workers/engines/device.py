"""Which device the engines of this process compute on, and in what precision."""

import os
from collections.abc import Iterable

import torch

from pipeline.domain.errors import ErrorCode, RecognitionFailed

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
