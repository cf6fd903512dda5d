"""Percentiles and trends, against what is known of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.measuring import _student, percentile, trend


def test_percentiles_are_values_of_the_series() -> None:
    values = [15, 20, 35, 40, 50]
    assert [percentile(values, share) for share in (0.05, 0.3, 0.4, 0.5, 1.0)] == [15, 20, 20, 35, 50]


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1], 0), ([1], 1.01)])
def test_what_has_no_percentile_is_refused(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, share)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_not_exceeded_by_so_large_a_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


# From printed tables of Student's t, two-sided 95 %.
@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (10, 2.228), (60, 2.000)])
def test_the_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert _student(0.975, freedom) == pytest.approx(quantile, rel=0.01)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(3, 50))
def test_a_straight_line_is_found_exactly(start: float, slope: float, count: int) -> None:
    found = trend([start + slope * index for index in range(count)])
    assert found.slope == pytest.approx(slope, abs=1e-6)
    assert found.low == pytest.approx(found.high, abs=1e-4)


def test_the_interval_holds_the_true_slope_as_often_as_it_says() -> None:
    chance = random.Random(7)
    series = [[0.5 * index + chance.gauss(0, 5) for index in range(12)] for _ in range(2000)]
    held = sum((found := trend(one)).low <= 0.5 <= found.high for one in series)
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_noise_is_not_growth_and_growth_is() -> None:
    chance = random.Random(3)
    noise = [chance.gauss(100, 1) for _ in range(60)]
    assert not trend(noise).is_growth
    assert trend([value + index for index, value in enumerate(noise)]).is_growth
