"""Predicts what a model takes of a device, and what fits onto one: weights, activations, cache.

The cache is exact: full attention grows with every token, Unlimited-OCR's reference sliding window keeps the prompt and
the last 128 tokens whatever the length. Activations are the tensors that the classes of transformers 5.24 have alive at
their peak. `docs/memory.md` says how both compare with what is measured.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.model_shapes import Config, ModelShape, shape_of

MARGIN = 0.12
"""Of a device's memory that is left alone: the driver's context, fragments, and what the prediction leaves out."""

_GIVEN_UP_IN_ORDER = (("batch", 1), ("pages", 1), ("tiles", 0), ("output_tokens", 1))
"""From what costs only time to what costs text, each with its least."""
_FLOAT32_BYTES = 4
_MASKS_AT_ONCE = 3
"""A mask is made of two others."""
_LOGITS_AT_ONCE = 3
"""The scores of a token, in 32 bit, and what is made of them to choose it."""


class DType(StrEnum):
    """The type of a model's numbers, by the name that it has in `config.json`."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def size_bytes(self) -> int:
        """Return the size of one number."""
        return _FLOAT32_BYTES if self is DType.FLOAT32 else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is on the device at once."""

    batch: int = 1
    """Sequences."""
    pages: int = 1
    """Of each sequence."""
    tiles: int = 0
    """Parts of each page that are read beside the whole."""
    prompt_tokens: int = 32
    """Of each sequence, its images not counted."""
    output_tokens: int = 4096
    """The most that is generated for each page."""
    images_at_once: int | None = None
    """How many images go through the vision encoder together; None: all of them, as the classes do by themselves."""

    def __post_init__(self) -> None:
        if min(self.batch, self.pages, self.prompt_tokens, self.output_tokens, self.images_at_once or 1) < 1:
            raise ValueError(f"nothing can be read with {self}")
        if self.tiles < 0:
            raise ValueError(f"a page can't have {self.tiles} tiles")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """What a model is expected to take."""

    weights_bytes: int
    activations_bytes: int
    """At the peak, whichever phase has it: encoding images, prefill, or generating."""
    cache_bytes: int

    @property
    def total_bytes(self) -> int:
        """Return all of it."""
        return self.weights_bytes + self.activations_bytes + self.cache_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What fits onto a device."""

    work: Workload
    plan: MemoryPlan
    usable_bytes: int


class DoesNotFit(Rejected):
    """A device is too small for the smallest piece of the work, and by how much."""

    def __init__(self, *, needed_bytes: int, usable_bytes: int, what: str) -> None:
        super().__init__(
            ErrorCode.DOES_NOT_FIT,
            f"{what} needs {_gib(needed_bytes)} and the device has {_gib(usable_bytes)} for it:"
            " use a larger device, a smaller model or the CPU",
        )
        self.needed_bytes = needed_bytes
        self.usable_bytes = usable_bytes


def plan_memory(config: Config, dtype: DType, work: Workload) -> MemoryPlan:
    """Return what a model takes for a workload.

    Args: config is what the model's `config.json` holds; keys that it leaves out have the defaults of its class.
    Raises: UnknownArchitecture.
    """
    shape = shape_of(config)
    return MemoryPlan(
        weights_bytes=weights_bytes(shape, dtype),
        activations_bytes=_activations_bytes(shape, dtype, work),
        cache_bytes=_cache_bytes(shape, dtype, work),
    )


def budget(config: Config, dtype: DType, total_bytes: int, wanted: Workload, *, margin: float = MARGIN) -> Fit:
    """Return the largest part of a workload that fits: a smaller batch first, then fewer pages, fewer tiles, less text.

    Args: total_bytes is what the device has for the model, weights included.
    Raises: DoesNotFit, if not even one page without tiles and with one token fits; UnknownArchitecture; ValueError, if
        the prompt alone is longer than the model's context.
    """
    shape, usable = shape_of(config), usable_bytes(total_bytes, margin)

    def fits(work: Workload) -> bool:
        return (
            sequence_tokens(shape, work) <= shape.context_tokens
            and plan_memory(config, dtype, work).total_bytes <= usable
        )

    work = wanted
    for name, least in _GIVEN_UP_IN_ORDER:
        # The most of it that fits with what was given up before; if none does, its least, and then the next.
        smallest = replace(work, **{name: least})
        if fits(smallest):
            number = _largest(least, getattr(work, name), partial(_fits_with, fits, work, name))
            work = replace(work, **{name: number})
            return Fit(work=work, plan=plan_memory(config, dtype, work), usable_bytes=usable)
        work = smallest
    if sequence_tokens(shape, work) > shape.context_tokens:
        raise ValueError(f"a prompt of {work.prompt_tokens} tokens leaves no room in {shape.context_tokens}")
    needed = plan_memory(config, dtype, work).total_bytes
    raise DoesNotFit(needed_bytes=needed, usable_bytes=usable, what="one page")


def usable_bytes(total_bytes: int, margin: float = MARGIN) -> int:
    """Return what of a device's memory may be planned with. Raises: ValueError."""
    if total_bytes < 0 or not 0 <= margin < 1:
        raise ValueError(f"no budget from {total_bytes} bytes with a margin of {margin}")
    return int(total_bytes * (1 - margin))


def weights_bytes(shape: ModelShape, dtype: DType) -> int:
    """Return what the parameters take."""
    converted = shape.parameters - shape.parameters_in_float32
    return converted * dtype.size_bytes + shape.parameters_in_float32 * _FLOAT32_BYTES


def prefill_tokens(shape: ModelShape, work: Workload) -> int:
    """Return how many tokens a sequence begins with, those of its images included."""
    tiles = work.tiles * shape.tile.tokens if shape.tile else 0
    return work.prompt_tokens + work.pages * (shape.page.tokens + tiles + shape.separator_tokens)


def sequence_tokens(shape: ModelShape, work: Workload) -> int:
    """Return how long a sequence may become."""
    return prefill_tokens(shape, work) + work.pages * work.output_tokens


def _cache_bytes(shape: ModelShape, dtype: DType, work: Workload) -> int:
    generated = work.pages * work.output_tokens
    kept = prefill_tokens(shape, work) + (generated if shape.window is None else min(generated, shape.window))
    return work.batch * (kept * shape.cache_per_token + work.pages * shape.cross_cache) * dtype.size_bytes


def _activations_bytes(shape: ModelShape, dtype: DType, work: Workload) -> int:
    size, prefill = dtype.size_bytes, work.batch * prefill_tokens(shape, work)
    mask = work.batch * prefill_tokens(shape, work) ** 2 if shape.has_mask else 0
    logits = work.batch * shape.vocabulary * _LOGITS_AT_ONCE * _FLOAT32_BYTES
    # The cache of a layer is made anew, one token longer, while the old one is still there.
    copied = _cache_bytes(shape, dtype, work) // shape.layers
    phases = (
        _encoding(shape, work) * size,
        prefill * shape.hidden * size + _MASKS_AT_ONCE * mask,
        prefill * shape.activations_per_token * size + mask,
        logits + copied,
    )
    return _inputs(shape, work) * size + max(phases)


def _encoding(shape: ModelShape, work: Workload) -> int:
    pages = work.batch * work.pages
    tiles = pages * work.tiles if shape.tile else 0
    at_once = work.images_at_once or max(pages, tiles)
    of_tiles = min(tiles, at_once) * shape.tile.activations if shape.tile else 0
    # Whole pages first, then tiles, never both at the same time.
    return max(min(pages, at_once) * shape.page.activations, of_tiles)


def _inputs(shape: ModelShape, work: Workload) -> int:
    tiles = work.tiles * shape.tile.pixels if shape.tile else 0
    return work.batch * work.pages * (shape.page.pixels + tiles)


def _fits_with(fits: Callable[[Workload], bool], work: Workload, name: str, number: int) -> bool:
    return fits(replace(work, **{name: number}))


def _largest(known_to_fit: int, largest: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number of the range that fits, where whatever is below one that fits does, too."""
    while known_to_fit < largest:
        middle = (known_to_fit + largest + 1) // 2
        known_to_fit, largest = (middle, largest) if fits(middle) else (known_to_fit, middle - 1)
    return known_to_fit


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"
