"""How large windows are."""

from datetime import timedelta

import pytest

from pipeline.steps.admit import Windows

WINDOWS = Windows(io=4, per_slot=2, most_per_slot=16, ahead=timedelta(seconds=1), short_share=0.25)


@pytest.mark.parametrize(
    ("devices", "pace", "ahead_ms"), [(1, 1.0, 1000), (4, 1.0, 4000), (4, 8.0, 500), (1, 0.1, 10_000)]
)
def test_the_window_of_a_lane_holds_so_much_work_as_it_really_takes(devices, pace, ahead_ms):
    window = WINDOWS.of_lane(devices, pace)
    assert (window.least, window.most, window.ahead_ms) == (2 * devices, 16 * devices, ahead_ms)
