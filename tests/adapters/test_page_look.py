"""What is to be seen on made pages: sharp or blurred, with and without the other side of the sheet."""

from dataclasses import replace
from itertools import pairwise

import cv2
import numpy as np
import pytest

from pipeline.adapters.page_look import look_at
from pipeline.domain.recognition import Line
from pipeline.ports.documents import Pixels
from tests.pages import image, paper, with_text

ROWS = range(250, 2200, 60)
TEXT = "Permit me to introduce you to the facility"


def written(*, ink: int = 20, shade: int = 250) -> Pixels:
    pixels = paper(shade=shade)
    for y in ROWS:
        with_text(pixels, TEXT, 200, y, ink=ink)
    return pixels


def lines() -> list[Line]:
    boxes = [((190.0, y - 34.0), (1050.0, y - 34.0), (1050.0, y + 12.0), (190.0, y + 12.0)) for y in ROWS]
    return [Line(text=TEXT, polygon=box, confidence=0.99) for box in boxes]


def edge_px(pixels: Pixels) -> float:
    found = look_at(image(pixels), lines()).edge_px
    assert found is not None
    return found


def shown_through(pixels: Pixels, read: list[Line]) -> float:
    found = look_at(image(pixels), read).shown_through
    assert found is not None
    return found


def blurred(pixels: Pixels, sigma: float) -> Pixels:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.uint8) if sigma else pixels


def grained(pixels: Pixels, sigma: float) -> Pixels:
    grain = np.random.default_rng(4).normal(0, sigma, pixels.shape[:2])[:, :, None]
    return (pixels + grain).clip(0, 255).astype(np.uint8)


def printed_on_both_sides(pixels: Pixels, share: float) -> Pixels:
    """Return a page that its back shines through with that share of its ink: mirrored, shifted, a little blurred."""
    back = blurred(np.ascontiguousarray(np.roll(written(), 31, axis=0)[:, ::-1]), 2)
    return (pixels - share * (255.0 - back)).clip(0, 255).astype(np.uint8)


def drawn(breadth_px: int) -> Pixels:
    """Return a page of rows drawn up and down with a pen of that breadth."""
    pixels = paper()
    for y in ROWS:
        row = np.array([(x, y - 28 * (x // 40 % 2)) for x in range(200, 1040, 40)], np.int32)
        cv2.polylines(pixels, [row], isClosed=False, color=(20, 20, 20), thickness=breadth_px, lineType=cv2.LINE_AA)
    return pixels


def stroke_em(pixels: Pixels, read: list[Line]) -> float:
    found = look_at(image(np.ascontiguousarray(pixels)), read).stroke_em
    assert found is not None
    return found


class TestStrokes:
    def test_they_are_as_broad_as_the_pen(self) -> None:
        pens = (2, 3, 5, 7)
        broad = [46 * stroke_em(drawn(pen), lines()) for pen in pens]
        assert broad == sorted(broad)
        # What softens their edges makes all of them a little broader.
        assert [after - before for before, after in pairwise(broad)] == pytest.approx([1, 2, 2], abs=1)

    @pytest.mark.parametrize("scale", [0.6, 2.0])
    def test_resolution_and_the_way_that_a_page_lies_change_nothing(self, scale: float) -> None:
        pixels = drawn(3)
        sized = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        larger = [replace(line, polygon=tuple((scale * x, scale * y) for x, y in line.polygon)) for line in lines()]
        height = pixels.shape[0]
        turned = [replace(line, polygon=tuple((height - y, x) for x, y in line.polygon)) for line in lines()]
        as_it_is = stroke_em(pixels, lines())
        assert stroke_em(np.asarray(sized), larger) == pytest.approx(as_it_is, rel=0.15)
        assert stroke_em(np.rot90(pixels, -1), turned) == pytest.approx(as_it_is, rel=0.02)

    def test_of_lines_far_from_level_nothing_is_told(self) -> None:
        across = Line(text=TEXT, polygon=((200.0, 200.0), (1000.0, 1000.0), (990.0, 1010.0), (190.0, 210.0)))
        assert look_at(image(drawn(3)), [across]).stroke_em is None


class TestEdges:
    def test_sharp_letters_have_narrow_ones(self) -> None:
        assert edge_px(written()) < 2.5

    def test_they_widen_with_blur(self) -> None:
        widths = [edge_px(blurred(written(), sigma)) for sigma in (0, 1, 2, 3, 5)]
        assert widths == sorted(widths)
        assert widths[-1] > 3 * widths[0]

    @pytest.mark.parametrize(("ink", "shade"), [(120, 250), (20, 160), (90, 200)])
    def test_how_dark_ink_and_paper_are_changes_little(self, ink: int, shade: int) -> None:
        assert edge_px(blurred(written(ink=ink, shade=shade), 2)) == pytest.approx(
            edge_px(blurred(written(), 2)), rel=0.25
        )

    def test_how_much_text_there_is_changes_nothing(self) -> None:
        pixels = blurred(written(), 2)
        one = look_at(image(pixels), lines()[:1]).edge_px
        assert one == pytest.approx(edge_px(pixels), rel=0.1)

    def test_a_blurred_page_with_grain_is_no_sharp_one(self) -> None:
        assert edge_px(grained(blurred(written(), 4), 4)) > 2 * edge_px(written())

    def test_a_page_without_lines_has_none(self) -> None:
        assert look_at(image(written()), []).edge_px is None

    def test_lines_beyond_the_page_are_passed_over(self) -> None:
        beyond = Line(text="x", polygon=((1700.0, 10.0), (1900.0, 10.0), (1900.0, 40.0), (1700.0, 40.0)))
        assert look_at(image(written()), [beyond]).edge_px is None


class TestShownThrough:
    @pytest.mark.parametrize("sigma", [0, 4, 9])
    def test_nothing_does_on_a_page_printed_on_one_side(self, sigma: float) -> None:
        assert shown_through(grained(written(), sigma), lines()) < 0.05

    def test_it_rises_with_what_does(self) -> None:
        shares = [shown_through(printed_on_both_sides(written(), share), lines()) for share in (0, 0.05, 0.1, 0.15)]
        assert shares == sorted(shares)
        assert (shares[0], shares[-1] > 0.3) == (0, True)

    def test_it_is_seen_on_grained_paper(self) -> None:
        assert shown_through(grained(printed_on_both_sides(written(), 0.2), 3), lines()) > 0.3

    def test_a_picture_in_one_place_is_none(self) -> None:
        pixels = written()
        dice = np.random.default_rng(5)
        pixels[1700:2100, 300:800] = cv2.resize(
            dice.integers(150, 250, (40, 50, 1), np.uint8), (500, 400), interpolation=cv2.INTER_NEAREST
        )[:, :, None]
        assert shown_through(pixels, lines()) < 0.15

    def test_pale_rules_and_underlines_are_none(self) -> None:
        pixels = written()
        for y in ROWS:
            pixels[y + 20 : y + 22, 150:1500] = 215
        assert shown_through(pixels, lines()) < 0.05

    def test_pale_print_that_was_read_is_none(self) -> None:
        pale = written(ink=215)
        with_text(pale, "in black", 400, 160)
        assert shown_through(pale, lines()) < 0.05
        assert shown_through(pale, []) > 0.3
