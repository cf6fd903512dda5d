"""Predicts what detectors and recognisers of the PP-OCR kind take: their memory is linear in the pixels that they see.

They keep no cache and have no attention over the page, so the slope, once measured, says everything.
"""

import math
from dataclasses import dataclass

from pipeline.domain.memory import MARGIN, DoesNotFit, MemoryPlan, usable_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelModel:
    """A convolutional model as far as memory is concerned."""

    weights_bytes: int
    bytes_per_pixel: float
    """Alive at the peak, for each pixel of the input: of the page for a detector, of the line for a recogniser."""

    def plan(self, *, pixels: int, batch: int = 1) -> MemoryPlan:
        """Return what it takes for so many images of so many pixels at once."""
        if pixels < 1 or batch < 1:
            raise ValueError(f"nothing to plan for {batch} images of {pixels} pixels")
        activations = math.ceil(self.bytes_per_pixel * pixels * batch)
        return MemoryPlan(weights_bytes=self.weights_bytes, activations_bytes=activations, cache_bytes=0)

    def pixel_budget(self, total_bytes: int, *, margin: float = MARGIN) -> int:
        """Return how many pixels fit at once, over all images of a batch. Raises: DoesNotFit, if none does."""
        usable = usable_bytes(total_bytes, margin)
        pixels = int((usable - self.weights_bytes) / self.bytes_per_pixel)
        if pixels < 1:
            raise DoesNotFit(needed_bytes=self.plan(pixels=1).total_bytes, usable_bytes=usable, what="one pixel")
        return pixels

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


# Measured on transformers' classes in float32 with tests/engines/test_memory_of_models.py, which holds them to it; the
# slope was the same to a thousandth from 0.4 to 1.6 megapixels. Half of both in 16 bit.
PP_OCRV6_SMALL_DETECTOR = PixelModel(weights_bytes=9_901_780, bytes_per_pixel=132.2)
PP_OCRV6_SMALL_RECOGNISER = PixelModel(weights_bytes=21_170_744, bytes_per_pixel=407.1)
