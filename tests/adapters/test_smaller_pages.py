import numpy as np

from pipeline.adapters.smaller_pages import smaller
from pipeline.ports.documents import PageImage


def test_a_page_is_shown_with_no_more_pixels_and_keeps_its_shape() -> None:
    page = PageImage(number=4, pixels=np.full((300, 200, 3), 7, np.uint8), dpi=200)
    shown = smaller(page, 15_000)
    assert (shown.number, shown.width_px, shown.height_px, shown.dpi) == (4, 100, 150, 100)
    assert (shown.pixels == 7).all()


def test_a_page_that_is_small_enough_is_left_as_it_is() -> None:
    page = PageImage(number=1, pixels=np.zeros((30, 20, 3), np.uint8), dpi=200)
    assert smaller(page, 600) is page
