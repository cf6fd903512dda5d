"""How much a model that reads pages into sequences of tokens may be given at once, by `memory.py`'s predictions."""

from dataclasses import dataclass, field, replace

from pipeline.domain.batches import ANY, LEAST_PAGE_PIXELS, BatchBound
from pipeline.domain.memory import (
    MARGIN,
    DoesNotFit,
    DType,
    Workload,
    budget,
    plan_memory,
    usable_bytes,
    weights_bytes,
)
from pipeline.domain.model_shapes import Config, ModelShape, shape_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceModel:
    """An engine that generates text, as far as memory is concerned."""

    config: Config = field(repr=False)
    dtype: DType
    together: Workload
    """The most that it reads at once: sequences of one page each, or pages of one sequence."""
    alone: Workload
    """A page that it reads by itself, which it may look at more closely."""

    @property
    def weights_bytes(self) -> int:
        """Return what its parameters take."""
        return weights_bytes(shape_of(self.config), self.dtype)

    def bound(self, total_bytes: int, *, correction: float = 1.0) -> BatchBound:
        """Return the most that fits; where a page's tiles do not, it is to be shown smaller. Raises: DoesNotFit."""
        total = self.as_planned(total_bytes, correction)
        many = budget(self.config, self.dtype, total, self.together).work
        one = budget(self.config, self.dtype, total, self.alone).work
        self._check_legible(one.tiles, usable_bytes(total))
        tiles = min(many.tiles, one.tiles) if self.together.tiles else one.tiles
        tokens, wanted = min(many.output_tokens, one.output_tokens), self.together.output_tokens
        return BatchBound(
            pages=many.batch * many.pages,
            pixels=ANY.pixels,
            page_pixels=None if tiles >= self.alone.tiles else most_pixels(shape_of(self.config), tiles),
            page_tokens=tokens if tokens < wanted else None,
        )

    def planned_bytes(self, *, pages: int, pixels: int) -> int:  # noqa: ARG002 - a page's pixels become a fixed number
        """Return what reading so many pages together is expected to take at its peak, weights included."""
        work = replace(self.together, **{"pages" if self.together.pages > 1 else "batch": pages})
        return plan_memory(self.config, self.dtype, work).total_bytes

    def as_planned(self, total_bytes: int, correction: float) -> int:
        """Return the size of the device on which a plan without correction is the one with it.

        What was measured below the plan is no reason to plan for less: pages with little text say nothing of those
        with much.
        """
        own = self.weights_bytes / (1 - MARGIN)
        return total_bytes if total_bytes <= own else int(own + (total_bytes - own) / max(1.0, correction))

    def _check_legible(self, tiles: int, usable: int) -> None:
        """Raises: DoesNotFit, if a page that is seen in so many tiles is seen too small to be read."""
        shape = shape_of(self.config)
        if tiles >= self.alone.tiles or most_pixels(shape, tiles) >= LEAST_PAGE_PIXELS:
            return
        legible = (more for more in range(tiles, self.alone.tiles) if most_pixels(shape, more) >= LEAST_PAGE_PIXELS)
        work = replace(self.alone, tiles=next(legible, self.alone.tiles), output_tokens=1)
        needed = plan_memory(self.config, self.dtype, work)
        raise DoesNotFit(needed_bytes=needed.total_bytes, usable_bytes=usable, what="one legible page")


def tiles_within(shape: ModelShape, pixels: int) -> int:
    """Return in how many tiles a page of so many pixels is seen: as it fills, none where the whole shows it all."""
    if shape.tile is None or pixels <= shape.page.pixels // _CHANNELS:
        return 0
    return pixels // (shape.tile.pixels // _CHANNELS)


def most_pixels(shape: ModelShape, tiles: int) -> int:
    """Return the most pixels of a page that `tiles_within` sees in no more than so many tiles."""
    whole = shape.page.pixels // _CHANNELS
    return whole if shape.tile is None else max(whole, (tiles + 1) * (shape.tile.pixels // _CHANNELS) - 1)


_CHANNELS = 3
