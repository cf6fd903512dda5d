import cv2
import numpy as np
import pytest

from pipeline.adapters.blank_pages import is_blank
from pipeline.ports.documents import PageImage, Pixels
from tests.pages import image, paper, rendered, shared, with_text


def blank(pixels: Pixels) -> bool:
    return is_blank(image(pixels))


def mixed(under: Pixels, over: Pixels, share: float) -> Pixels:
    return np.asarray(cv2.addWeighted(under, 1 - share, over, share, 0), np.uint8)


class TestNothingToRead:
    @pytest.mark.parametrize("shade", [255, 235, 128, 0])
    def test_an_even_page_is_blank_whatever_its_colour(self, shade: int) -> None:
        assert blank(paper(shade=shade))

    @pytest.mark.parametrize("size", [(1, 1), (4, 3000), (64, 64), (6000, 4000)])
    def test_an_even_page_is_blank_whatever_its_size(self, size: tuple[int, int]) -> None:
        assert blank(paper(*size))

    def test_yellowed_paper_that_darkens_to_its_edge_is_blank(self) -> None:
        pixels = paper()
        pixels[:] = np.linspace((250, 244, 220), (170, 150, 110), pixels.shape[1]).astype(np.uint8)
        assert blank(pixels)

    def test_grain_is_no_text(self) -> None:
        grain = np.random.default_rng(1).normal(230, 12, (2339, 1654, 1)).clip(0, 255).astype(np.uint8)
        assert blank(np.repeat(grain, 3, axis=2))

    def test_specks_of_dust_are_no_text(self) -> None:
        pixels, dice = paper(), np.random.default_rng(2)
        for x, y in [(x, y) for x in range(40, 1600, 97) for y in range(40, 2300, 131)]:
            dx, dy = dice.integers(0, 60, 2)
            pixels[y + dy : y + dy + 5, x + dx : x + dx + 5] = 30
        assert blank(pixels)

    def test_black_borders_of_a_scan_are_no_text(self) -> None:
        pixels = paper()
        pixels[:, :70] = pixels[2300:] = 15
        cv2.fillPoly(pixels, [np.array([[1654, 0], [1630, 0], [1600, 2339], [1654, 2339]], np.int32)], (10, 10, 10))
        assert blank(pixels)

    def test_punch_holes_are_no_text(self) -> None:
        pixels = paper()
        for y in (860, 1490):
            cv2.circle(pixels, (90, y), 23, (20, 20, 20), -1)
        assert blank(pixels)

    def test_what_shines_through_from_the_back_is_no_text(self) -> None:
        back = paper()
        for row in range(20):
            with_text(back, "the other side of the sheet", 150, 200 + 90 * row)
        assert blank(mixed(paper(), np.ascontiguousarray(back[:, ::-1]), 0.12))

    def test_a_fold_and_a_streak_are_no_text(self) -> None:
        pixels = paper()
        pixels[1170:1173, 40:1600] = 120
        pixels[:, 800:802] = 90
        assert blank(pixels)

    @pytest.mark.parametrize(
        ("name", "number"),
        [
            ("b_scan_report_30p.pdf", 2),
            ("b_scan_report_30p.pdf", 30),
            ("h_near_blank_scan.pdf", 1),
            ("h_blank_with_metadata.pdf", 1),
            *(("h_blank_pages_between_12p.pdf", number) for number in (2, 7, 8, 10, 12)),
        ],
    )
    def test_blank_scans_of_the_corpus_are_blank(self, name: str, number: int) -> None:
        assert is_blank(rendered(shared(f"corpus/{name}"), number))


class TestSomethingToRead:
    @pytest.mark.parametrize("text", ["7", "12", "void", "Seite 3", "i"])
    def test_a_page_with_one_short_word_is_not_blank(self, text: str) -> None:
        assert not blank(with_text(paper(), text, 800, 2200))

    @pytest.mark.parametrize("scale", [0.5, 0.8, 4.0])
    def test_neither_small_nor_large_letters_are_missed(self, scale: float) -> None:
        assert not blank(with_text(paper(), "page", 300, 900, scale=scale))

    def test_faint_print_is_not_blank(self) -> None:
        assert not blank(with_text(paper(), "carbon copy", 300, 900, ink=195))

    def test_light_letters_on_a_dark_page_are_not_blank(self) -> None:
        assert not blank(with_text(paper(shade=25), "negative", 300, 900, ink=220))

    def test_giant_letters_are_not_blank(self) -> None:
        pixels = paper()
        pixels[700:1500, 700:850] = pixels[700:820, 500:1050] = 10
        assert not blank(pixels)

    def test_a_line_of_print_on_a_page_as_large_as_a_wall_is_not_blank(self) -> None:
        wall = PageImage(number=1, pixels=with_text(paper(6000, 6000), "tiny text", 600, 700, scale=0.6), dpi=54)
        assert not is_blank(wall)

    def test_a_stamp_is_not_blank(self) -> None:
        pixels = paper()
        cv2.circle(pixels, (1200, 400), 110, (200, 60, 70), 5)
        assert not blank(pixels)

    def test_a_word_on_a_page_with_black_borders_holes_and_grain_is_not_blank(self) -> None:
        grain = np.random.default_rng(3).normal(225, 8, (2339, 1654, 1)).clip(0, 255).astype(np.uint8)
        pixels = np.repeat(grain, 3, axis=2)
        pixels[:, :80] = 10
        cv2.circle(pixels, (160, 900), 23, (20, 20, 20), -1)
        assert not blank(with_text(pixels, "Annex", 700, 1100))

    @pytest.mark.parametrize(
        ("name", "number"),
        [
            ("a_en_gramophone_dark.png", 1),
            ("a_de_bebel_1879_p0186.tif", 1),
            ("a_zh_vertical_woodblock.png", 1),
            *(("f_tiff_g4_400dpi_3p.tiff", number) for number in (1, 2, 3)),
            *(("h_blank_pages_between_12p.pdf", number) for number in (1, 4, 11)),
        ],
    )
    def test_nearly_empty_pages_of_the_corpus_are_not_blank(self, name: str, number: int) -> None:
        assert not is_blank(rendered(shared(f"corpus/{name}"), number))
