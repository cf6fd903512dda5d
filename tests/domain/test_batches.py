"""The ladder down which a batch goes when memory runs out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.batches import LEAST_PAGE_PIXELS, BatchBound

bounds = st.builds(
    BatchBound,
    pages=st.integers(1, 64),
    pixels=st.integers(0, 10**9),
    page_pixels=st.none() | st.integers(1, 10**8),
)


def test_the_batch_is_halved_first_and_then_the_page() -> None:
    bound = BatchBound(pages=16, pixels=128_000_000)
    steps = []
    pages, pixels = 4, 16_000_000
    while bound := bound.lower(pages=pages, pixels=pixels):
        steps.append((bound.pages, bound.page_pixels))
        pages = bound.pages
        pixels = bound.page_pixels or 4_000_000 * pages
    assert steps == [(2, None), (1, None), (1, 2_000_000), (1, 1_000_000)]


@given(bounds, st.integers(1, 64), st.integers(1, 10**9))
def test_each_step_is_lower_and_the_last_is_a_legible_page(bound: BatchBound, pages: int, pixels: int) -> None:
    lower = bound.lower(pages=pages, pixels=pixels)
    if lower is None:
        assert pages == 1
        assert pixels < 2 * LEAST_PAGE_PIXELS
    elif pages > 1:
        assert lower.pages <= pages / 2
        assert lower.pixels <= pixels / 2
    else:
        assert LEAST_PAGE_PIXELS <= (lower.page_pixels or 0) <= pixels / 2


@given(bounds, bounds)
def test_within_another_bound_it_keeps_to_both(one: BatchBound, other: BatchBound) -> None:
    both = one.within(other)
    assert both == other.within(one)
    assert both.within(one) == both
    assert (both.pages, both.pixels) == (min(one.pages, other.pages), min(one.pixels, other.pixels))


def test_a_bound_that_nothing_fits_in_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing can be read"):
        BatchBound(pages=0, pixels=1)
