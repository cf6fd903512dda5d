"""How much an engine is given at once, and the ladder down which that goes when memory runs out (pure).

Half the batch, down to a page alone; then half the pixels of that page, as long as print stays legible. What follows
after the last step, another process, a smaller chunk, another engine, is decided in `retry.py`.
"""

from dataclasses import dataclass, replace

from pipeline.domain.document import PageClass

LEAST_PAGE_PIXELS = 1_000_000
"""An A4 page at 100 dpi: ten-point print is still legible, and less would be guessed at rather than read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBound:
    """The most that an engine is given at once; a single page may always be given."""

    pages: int
    pixels: int
    """Of all its pages together."""
    page_pixels: int | None = None
    """Of a single page; a larger one is shown smaller. None: every page as it is."""
    page_tokens: int | None = None
    """That are generated for a page. None: as many as the engine takes."""

    def __post_init__(self) -> None:
        least = min(number for number in (self.pages, self.page_pixels, self.page_tokens) if number is not None)
        if least < 1 or self.pixels < 0:
            raise ValueError(f"nothing can be read within {self}")

    def at_most(self, pages: int | None) -> "BatchBound":
        """Return it with no more pages than that; None leaves it."""
        return self if pages is None else replace(self, pages=min(self.pages, pages))

    def within(self, other: "BatchBound") -> "BatchBound":
        """Return what keeps to both."""
        return BatchBound(
            pages=min(self.pages, other.pages),
            pixels=min(self.pixels, other.pixels),
            page_pixels=_smaller(self.page_pixels, other.page_pixels),
            page_tokens=_smaller(self.page_tokens, other.page_tokens),
        )

    def lower(self, *, pages: int, pixels: int) -> "BatchBound | None":
        """Return the next step down after memory ran out over so many pages of so many pixels together.

        None if there is none: a page alone, which may not be shown any smaller.
        """
        if pages > 1:
            return replace(self, pages=max(1, min(self.pages, pages) // 2), pixels=min(self.pixels, pixels) // 2)
        half = pixels // 2
        return replace(self, pages=1, page_pixels=half) if half >= LEAST_PAGE_PIXELS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A class of pages of which an engine could not read one alone, for want of memory."""

    engine: str
    revision: str
    device: str
    """Kind and size, `cuda 25757220864`."""
    page_class: PageClass


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((number for number in (one, other) if number is not None), default=None)


ONE_PAGE = BatchBound(pages=1, pixels=0)
ANY = BatchBound(pages=10**6, pixels=10**12)
"""More than any engine takes."""
