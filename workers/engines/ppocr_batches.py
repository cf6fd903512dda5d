"""How much the PP-OCR networks in torch look at together; known without torch, for planning."""

from pipeline.domain.batches import BatchBound
from pipeline.domain.pixel_memory import (
    PP_OCRV6_SMALL_DETECTOR,
    PP_OCRV6_SMALL_RECOGNISER,
    BatchModel,
    PixelModel,
)

ON_CPU = BatchBound(pages=2, pixels=16_000_000)
"""More gain nothing on one thread, and finished pages should be put away soon."""
ON_ACCELERATOR = BatchBound(pages=16, pixels=128_000_000)
"""A4 pages at 200 dpi have 4 million pixels, 12 MB; the networks see at most 2 million of each."""
MOST_PIXELS = 8_000_000
"""Of what goes through a network at once: four pages as the detector sees them, or 200 long lines."""


def memory_on_accelerator(pages: int | None = None) -> BatchModel:
    """Return what they take there, in 16 bit: the recogniser's lines take three times what the detector's pages do."""
    weights = PP_OCRV6_SMALL_DETECTOR.weights_bytes + PP_OCRV6_SMALL_RECOGNISER.weights_bytes
    model = PixelModel(
        weights_bytes=weights // 2,
        bytes_per_pixel=PP_OCRV6_SMALL_RECOGNISER.bytes_per_pixel / 2,
        at_once=MOST_PIXELS,
    )
    return BatchModel(model=model, pages=pages or ON_ACCELERATOR.pages)
