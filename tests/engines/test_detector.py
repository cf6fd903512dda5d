import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.ppocr.detector import parts_of
from pipeline.engines.ppocr.orientation import turned_back
from tests.builders import STEADY


@STEADY
@given(st.integers(1, 50_000), st.integers(1, 40), st.floats(0, 500))
def test_parts_cover_a_page_and_each_place_belongs_to_one(length: int, count: int, overlap: float) -> None:
    parts = parts_of(length, count, overlap)
    assert (parts[0].start, parts[-1].stop) == (0, length)
    assert [parts[0].first, parts[-1].last] == [-math.inf, math.inf]
    assert all(above.last == below.first for above, below in pairwise(parts))
    assert all(below.start <= above.stop for above, below in pairwise(parts))


@pytest.mark.parametrize("quarters", range(4))
def test_a_place_on_the_turned_page_is_found_on_the_page_as_it_was(quarters: int) -> None:
    page = np.arange(5 * 8).reshape(5, 8)
    turned_page = np.rot90(page, -quarters)
    height, width = turned_page.shape
    places = np.array([[x, y] for y in range(height) for x in range(width)], np.float32)
    back = turned_back(places, quarters, 8, 5).astype(int)
    assert [page[y, x] for x, y in back] == list(turned_page.flat)
