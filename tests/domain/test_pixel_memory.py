"""Engines that look at pixels: what fits, and how a measurement corrects the plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.memory import DoesNotFit
from pipeline.domain.pixel_memory import BatchModel, PixelModel, corrected

LINEAR = BatchModel(model=PixelModel(weights_bytes=100_000_000, bytes_per_pixel=100), pages=16)


def test_a_batch_is_bounded_by_what_fits_and_a_page_is_shown_no_larger() -> None:
    bound = LINEAR.bound(1_000_000_000)
    assert (bound.pages, bound.pixels, bound.page_pixels) == (16, 7_800_000, 7_800_000)
    assert LINEAR.bound(1_000_000_000, correction=2).pixels == 3_900_000


def test_a_device_without_room_for_a_small_page_is_refused() -> None:
    with pytest.raises(DoesNotFit):
        LINEAR.bound(200_000_000)


def test_a_model_that_takes_its_pixels_in_turns_is_bounded_only_where_a_turn_does_not_fit() -> None:
    model = PixelModel(weights_bytes=100_000_000, bytes_per_pixel=100, at_once=2_000_000)
    assert model.plan(pixels=1_000_000_000).activations_bytes == 200_000_000
    assert model.pixel_budget(1_000_000_000) >= 10**12
    assert model.pixel_budget(250_000_000) < 2_000_000


def test_a_correction_rises_at_once_and_falls_slowly() -> None:
    assert corrected(1.0, planned_bytes=100, measured_bytes=150) == 1.5
    assert corrected(1.5, planned_bytes=100, measured_bytes=100) == pytest.approx(1.4375)


@given(st.floats(0.25, 8), st.integers(1, 10**12), st.integers(1, 10**12))
def test_a_correction_stays_within_reason(known: float, planned: int, measured: int) -> None:
    assert 0.25 <= corrected(known, planned_bytes=planned, measured_bytes=measured) <= 8
