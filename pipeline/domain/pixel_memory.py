"""Predicts what detectors and recognisers of the PP-OCR kind take: their memory is linear in the pixels that they see.

They keep no cache and have no attention over the page, so the slope, once measured, says everything.
"""

import math
from dataclasses import dataclass, replace

from pipeline.domain.batches import LEAST_PAGE_PIXELS, BatchBound
from pipeline.domain.memory import MARGIN, DoesNotFit, MemoryPlan, usable_bytes

_UNBOUNDED = 10**12
"""Pixels: more than any batch has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelModel:
    """A convolutional model as far as memory is concerned."""

    weights_bytes: int
    bytes_per_pixel: float
    """Alive at the peak, for each pixel of the input: of the page for a detector, of the line for a recogniser."""
    at_once: int | None = None
    """The most pixels that it looks at together, however many it is given; None: all of them."""

    def corrected(self, factor: float) -> "PixelModel":
        """Return what it takes when a batch takes so much more than this says."""
        return replace(self, bytes_per_pixel=self.bytes_per_pixel * factor)

    def plan(self, *, pixels: int, batch: int = 1) -> MemoryPlan:
        """Return what it takes for so many images of so many pixels at once."""
        if pixels < 1 or batch < 1:
            raise ValueError(f"nothing to plan for {batch} images of {pixels} pixels")
        seen = pixels * batch if self.at_once is None else min(pixels * batch, self.at_once)
        activations = math.ceil(self.bytes_per_pixel * seen)
        return MemoryPlan(weights_bytes=self.weights_bytes, activations_bytes=activations, cache_bytes=0)

    def pixel_budget(self, total_bytes: int, *, margin: float = MARGIN) -> int:
        """Return how many pixels fit at once, over all images of a batch. Raises: DoesNotFit, if none does."""
        usable = usable_bytes(total_bytes, margin)
        pixels = int((usable - self.weights_bytes) / self.bytes_per_pixel)
        if pixels < 1:
            raise DoesNotFit(needed_bytes=self.plan(pixels=1).total_bytes, usable_bytes=usable, what="one pixel")
        return pixels if self.at_once is None or pixels < self.at_once else _UNBOUNDED

    def batch(self, total_bytes: int, *, pixels: int, margin: float = MARGIN) -> int:
        """Return how many images of so many pixels fit at once. Raises: DoesNotFit, if not even one does."""
        fitting = self.pixel_budget(total_bytes, margin=margin) // pixels
        if fitting < 1:
            raise DoesNotFit(
                needed_bytes=self.plan(pixels=pixels).total_bytes,
                usable_bytes=usable_bytes(total_bytes, margin),
                what=f"an image of {pixels} pixels",
            )
        return fitting


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchModel:
    """An engine that reads pages together, as far as memory is concerned."""

    model: PixelModel
    pages: int
    """The most that it reads together."""

    @property
    def weights_bytes(self) -> int:
        """Return what its parameters take."""
        return self.model.weights_bytes

    def planned_bytes(self, *, pages: int, pixels: int) -> int:  # noqa: ARG002 - however many pages the pixels are of
        """Return what so many pixels together are expected to take at their peak, weights included."""
        return self.model.plan(pixels=pixels).total_bytes

    def bound(self, total_bytes: int, *, correction: float = 1.0) -> BatchBound:
        """Return the most that fits; a page that has more pixels than that is shown smaller. Raises: DoesNotFit."""
        model = self.model.corrected(correction)
        model.batch(total_bytes, pixels=LEAST_PAGE_PIXELS)
        pixels = model.pixel_budget(total_bytes)
        return BatchBound(pages=self.pages, pixels=pixels, page_pixels=pixels)


def corrected(known: float, *, planned_bytes: int, measured_bytes: int) -> float:
    """Return the next correction after a batch took so much where the plan, uncorrected, said so much.

    It rises at once and falls slowly: too little costs an attempt that runs out of memory, too much a smaller batch.
    """
    least, most = _CORRECTIONS
    ratio = min(most, max(least, measured_bytes / planned_bytes))
    return ratio if ratio > known else known + (ratio - known) * _FALL


_CORRECTIONS = (0.25, 8.0)
"""Outside of it the plan is wrong and not merely off."""
_FALL = 0.125


# Measured on transformers' classes in float32 with tests/engines/test_memory_of_models.py, which holds them to it; the
# slope was the same to a thousandth from 0.4 to 1.6 megapixels. Half of both in 16 bit.
PP_OCRV6_SMALL_DETECTOR = PixelModel(weights_bytes=9_901_780, bytes_per_pixel=132.2)
PP_OCRV6_SMALL_RECOGNISER = PixelModel(weights_bytes=21_170_744, bytes_per_pixel=407.1)
