"""A good page made worse in one way at a time, and read: the flag for that way is raised, and rises with it."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest

from pipeline.adapters.page_look import look_at
from pipeline.domain.page_doubts import page_doubts, skew
from pipeline.engines.rapidocr import RapidOcrEngine
from pipeline.ports.documents import PageImage, Pixels
from tests.pages import SAMPLE, error_rate, rendered

Worse = Callable[[Pixels, float], Pixels]


@pytest.fixture(scope="module")
def engine() -> RapidOcrEngine:
    engine = RapidOcrEngine()
    engine.warm_up()
    return engine


@pytest.fixture(scope="module")
def good() -> Pixels:
    pixels = rendered(SAMPLE).pixels
    return np.ascontiguousarray(pixels[: pixels.shape[0] // 2])


def blurred(pixels: Pixels, sigma: float) -> Pixels:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.uint8)


def reduced(pixels: Pixels, scale: float) -> Pixels:
    return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8)


def turned(pixels: Pixels, angle_deg: float) -> Pixels:
    """Return a page turned clockwise, with white where it was not."""
    height, width = pixels.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), -angle_deg, 1)
    return np.asarray(cv2.warpAffine(pixels, matrix, (width, height), borderValue=(255, 255, 255)), np.uint8)


def printed_on_both_sides(pixels: Pixels, share: float) -> Pixels:
    back = blurred(np.ascontiguousarray(np.roll(pixels, 17, axis=0)[:, ::-1]), 1.5)
    return (pixels - share * (255.0 - back)).clip(0, 255).astype(np.uint8)


def doubts(engine: RapidOcrEngine, pixels: Pixels) -> dict[str, float]:
    page = PageImage(number=1, pixels=np.ascontiguousarray(pixels), dpi=150)
    [found] = engine.read([page])
    return {
        flag.name: flag.score or 0.0 for flag in page_doubts(found.lines, look_at(page, found.lines), sure=found.sure)
    }


def test_nothing_speaks_against_the_page_as_it_is(engine: RapidOcrEngine, good: Pixels) -> None:
    assert doubts(engine, good) == {}


@pytest.mark.parametrize(
    ("name", "worse", "degrees"),
    [
        ("blurred", blurred, (2.5, 4.0)),
        ("low_resolution", reduced, (0.4, 0.3)),
        ("skewed", turned, (2.5, 6.0)),
        ("skewed", turned, (-2.5, -6.0)),
        ("bleed_through", printed_on_both_sides, (0.15, 0.3)),
    ],
)
def test_a_flag_is_raised_and_rises_with_what_it_is_about(
    *, engine: RapidOcrEngine, good: Pixels, name: str, worse: Worse, degrees: tuple[float, float]
) -> None:
    first, second = (doubts(engine, worse(good, degree)).get(name, 0.0) for degree in degrees)
    assert 0.5 <= first < second


def test_a_slanted_page_is_read_right_and_its_slant_is_measured(engine: RapidOcrEngine, good: Pixels) -> None:
    upright, slanted = (
        next(engine.read([PageImage(number=1, pixels=turned(good, angle), dpi=150)])).lines for angle in (0.0, 3.0)
    )
    assert skew(slanted) - skew(upright) == pytest.approx(3, abs=0.3)
    texts = ["".join(sorted("".join(line.text for line in lines))) for lines in (slanted, upright)]
    assert error_rate(*texts) < 0.01
