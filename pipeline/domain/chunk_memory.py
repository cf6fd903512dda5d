"""How many pages a device reads together and in one chunk: as many as its memory holds and its time allows.

`chunking.py` cuts a document into such chunks. A chunk is a whole number of groups that are read together, so that the
device does not end each one with a part of a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pipeline.domain.batches import LEAST_PAGE_PIXELS
from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.memory import MARGIN, DoesNotFit, DType, Fit, Workload, budget
from pipeline.domain.model_shapes import Config
from pipeline.domain.pixel_memory import BatchModel, PixelModel
from pipeline.domain.sequence_memory import SequenceModel

EngineMemory = BatchModel | SequenceModel
"""What an engine takes of an accelerator: by the pixels that it looks at, or by the tokens that it makes of them."""

_SEEN = frozenset({PageClass.SCAN, PageClass.MIXED})
"""Pages that an engine looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTime:
    """How long a chunk should keep a device, and how long a page does."""

    target: timedelta
    page: timedelta
    """Of the device's time, for a page of the job's kind."""
    max_pages: int

    def __post_init__(self) -> None:
        if self.target <= timedelta(0) or self.page <= timedelta(0) or self.max_pages < 1:
            raise ValueError(f"no chunk within {self}")

    @property
    def pages(self) -> int:
        """Return how many pages fit, at least one."""
        return max(1, min(self.max_pages, self.target // self.page))


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceChunk:
    """A chunk for a model that reads pages into sequences of tokens."""

    pages: int
    fit: Fit
    """What is on the device at once, and what that takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChunk:
    """A chunk for a model that looks at pixels."""

    pages: int
    batch: int
    """Images at once."""
    pixels: int
    """Over all images of a batch, at most."""


def plan_sequences(
    config: Config, dtype: DType, free_bytes: int, wanted: Workload, time: ChunkTime, *, margin: float = MARGIN
) -> SequenceChunk:
    """Return the chunk for an engine that reads `wanted.batch` sequences of `wanted.pages` pages at most.

    Args: free_bytes is what the device has for the model, weights included; margin of it is left alone.
    Raises: DoesNotFit, if not even one page fits; UnknownArchitecture.
    """
    # No more than the time allows, however much memory there is.
    pages = min(wanted.pages, time.pages)
    in_time = replace(wanted, pages=pages, batch=min(wanted.batch, time.pages // pages))
    fit = budget(config, dtype, free_bytes, in_time, margin=margin)
    return SequenceChunk(pages=_whole_groups(fit.work.pages * fit.work.batch, time), fit=fit)


def plan_images(
    model: PixelModel, free_bytes: int, *, page_pixels: int, max_batch: int, time: ChunkTime, margin: float = MARGIN
) -> ImageChunk:
    """Return the chunk for an engine that takes up to `max_batch` pages of so many pixels at once.

    Raises: DoesNotFit, if not even one page fits.
    """
    batch = min(max_batch, time.pages, model.batch(free_bytes, pixels=page_pixels, margin=margin))
    return ImageChunk(
        pages=_whole_groups(batch, time), batch=batch, pixels=model.pixel_budget(free_bytes, margin=margin)
    )


def chunk_pages(
    engine: EngineMemory, totals: Sequence[int], facts: Sequence[PageFacts], *, time: ChunkTime, correction: float = 1.0
) -> int:
    """Return how many pages a chunk has at most: as many whole batches or sequences as the time allows.

    Planned for a page of the middle size, and for the smallest of the devices that can read a page at all; larger pages
    make smaller batches there.

    Args: totals are what the devices that may take it have for the engine, in bytes.
    Raises: DoesNotFit, if none of them can read a page, however small it is shown.
    """
    engine.bound(max(totals), correction=correction)
    smallest = min(total for total in totals if _fits(engine, total, correction))
    if isinstance(engine, SequenceModel):
        free_bytes = engine.as_planned(smallest, correction)
        return plan_sequences(engine.config, engine.dtype, free_bytes, engine.together, time).pages
    model = engine.model.corrected(correction)
    sizes = sorted(round(page.megapixels * 1e6) for page in facts if page.page_class in _SEEN)
    middle = max(1, sizes[len(sizes) // 2]) if sizes else LEAST_PAGE_PIXELS
    shown = min(middle, model.pixel_budget(smallest))
    return plan_images(model, smallest, page_pixels=shown, max_batch=engine.pages, time=time).pages


def _fits(engine: EngineMemory, total_bytes: int, correction: float) -> bool:
    try:
        engine.bound(total_bytes, correction=correction)
    except DoesNotFit:
        return False
    return True


def _whole_groups(together: int, time: ChunkTime) -> int:
    return time.pages // together * together
