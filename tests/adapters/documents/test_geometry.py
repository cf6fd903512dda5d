import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.documents.geometry import bounded_dpi, pixels_of, scan_dpi
from pipeline.domain.profiles import Profile
from pipeline.settings import LimitSettings
from tests.adapters.documents.builders import limits

SIDES = st.floats(min_value=10, max_value=14_400)


@given(width=SIDES, height=SIDES, dpi=st.floats(min_value=36, max_value=2400))
def test_a_page_never_has_more_pixels_than_allowed(width: float, height: float, dpi: float) -> None:
    bounds = limits(max_render_pixels=5_000_000)
    within = bounded_dpi(dpi, width, height, bounds)
    assert pixels_of(width, within) * pixels_of(height, within) <= 5_000_000 or within == dpi
    assert within == dpi or pixels_of(width, within) * pixels_of(height, within) > 4_000_000


@pytest.mark.parametrize(
    ("native", "long_side_pt", "chosen"),
    [(150, 842, 150), (300, 842, 300), (1200, 842, 300), (72, 792, 144), (96, 1800, 96), (50, 500, 100)],
)
def test_a_scan_keeps_its_resolution_within_reason(native: float, long_side_pt: float, chosen: float) -> None:
    assert scan_dpi(native, long_side_pt, limits()) == chosen


@pytest.mark.parametrize(("profile", "chosen"), [("fast", 200), ("balanced", 300), ("accurate", 300)])
def test_a_profile_says_how_fine_a_scan_stays(profile: str, chosen: float) -> None:
    assert scan_dpi(600, 842, LimitSettings().for_documents(Profile(profile))) == chosen
