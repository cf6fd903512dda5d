"""A page on its side, on its head or askew reads like the upright one, and its boxes lie on the same words."""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from pipeline.domain.profiles import Profile
from pipeline.domain.reading_order import order
from pipeline.domain.recognition import Line, Polygon, Word
from pipeline.engines.plugins import RAPIDOCR
from pipeline.ports.documents import PageImage, Pixels
from pipeline.ports.engines import ReadPage, Recogniser
from tests.pages import error_rate, image, rendered, shared

Points = npt.NDArray[np.float64]
Turned = tuple[PageImage, Callable[[Points], Points]]
"""A page, and where a point of the upright one lies on it."""


@pytest.fixture(scope="session")
def engine() -> Recogniser:
    engine = RAPIDOCR.create({"profile": Profile.BALANCED})
    engine.warm_up()
    return engine


def by_quarters(page: PageImage, quarters: int) -> Turned:
    """Turn a page clockwise."""
    right, bottom = page.width_px - 1, page.height_px - 1
    places = {
        0: lambda points: points,
        1: lambda points: np.stack([bottom - points[:, 1], points[:, 0]], axis=1),
        2: lambda points: np.stack([right - points[:, 0], bottom - points[:, 1]], axis=1),
        3: lambda points: np.stack([points[:, 1], right - points[:, 0]], axis=1),
    }
    return image(np.ascontiguousarray(np.rot90(page.pixels, -quarters))), places[quarters]


def by_degrees(page: PageImage, angle_deg: float) -> Turned:
    """Turn a page clockwise on a larger sheet of white paper."""
    height, width = page.pixels.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), -angle_deg, 1.0)
    cosine, sine = abs(matrix[0, 0]), abs(matrix[0, 1])
    size = (int(height * sine + width * cosine), int(height * cosine + width * sine))
    matrix[:, 2] += (size[0] - width) / 2, (size[1] - height) / 2
    turned: Pixels = np.asarray(cv2.warpAffine(page.pixels, matrix, size, borderValue=(255, 255, 255)), np.uint8)
    return image(turned), lambda points: points @ matrix[:, :2].T + matrix[:, 2]


TURNS = {
    "a quarter": lambda page: by_quarters(page, 1),
    "half": lambda page: by_quarters(page, 2),
    "three quarters": lambda page: by_quarters(page, 3),
    "3 degrees": lambda page: by_degrees(page, 3),
    "3 degrees back": lambda page: by_degrees(page, -3),
}


def text_of(found: ReadPage, page: PageImage) -> str:
    return "\n".join(block.text for block in order(found.lines, page.width_px, page.height_px))


def overlap(one: Points, other: Points) -> float:
    """Return the intersection of two convex polygons over their union, drawn at four times their size.

    OpenCV's own intersection of convex polygons is empty for some that are all but the same.
    """
    if (one.min(axis=0) > other.max(axis=0)).any() or (other.min(axis=0) > one.max(axis=0)).any():
        return 0.0
    corner = np.minimum(one.min(axis=0), other.min(axis=0))
    width, height = np.ceil(4 * (np.maximum(one.max(axis=0), other.max(axis=0)) - corner)).astype(int) + 1
    drawn = []
    for polygon in (one, other):
        mask = np.zeros((height, width), np.uint8)
        cv2.fillConvexPoly(mask, np.round(4 * (polygon - corner)).astype(np.int32), 1)
        drawn.append(mask)
    return float((drawn[0] & drawn[1]).sum() / (drawn[0] | drawn[1]).sum())


def share_landed(
    upright: Sequence[Line | Word], turned: Sequence[Line | Word], to_turned: Callable[[Points], Points], least: float
) -> float:
    """Return the share of boxes that lie, by that much, on a box of the turned page with the same text."""
    by_text = defaultdict(list)
    for other in turned:
        by_text[folded(other.text)].append(points(other.polygon))
    places = [(folded(one.text), to_turned(points(one.polygon))) for one in upright]
    return sum(any(overlap(place, other) >= least for other in by_text[text]) for text, place in places) / len(places)


def folded(text: str) -> str:
    """Whether a Chinese colon is a broad one is a matter of the white beside it."""
    return unicodedata.normalize("NFKC", text)


def points(polygon: Polygon) -> Points:
    return np.array(polygon, np.float64)


def words(found: ReadPage) -> list[Word]:
    return [word for line in found.lines for word in line.words]


@pytest.fixture(scope="session", params=["en_twocol", "zh_clean"])
def upright(request: pytest.FixtureRequest, engine: Recogniser) -> tuple[PageImage, ReadPage]:
    whole = rendered(shared(f"synthetic/{request.param}.png"))
    between_lines = next(row for row in range(whole.height_px // 2, whole.height_px) if whole.pixels[row].min() > 200)
    page = image(whole.pixels[:between_lines])
    return page, next(engine.read([page]))


@pytest.mark.parametrize("turn", TURNS)
def test_a_turned_page_reads_like_the_upright_one_with_boxes_on_the_same_words(
    engine: Recogniser, upright: tuple[PageImage, ReadPage], turn: str
) -> None:
    page, read = upright
    turned, to_turned = TURNS[turn](page)
    found = next(engine.read([turned]))
    assert len(words(read)) > 100
    assert error_rate(text_of(found, turned), text_of(read, page)) <= 0.01
    assert share_landed(read.lines, found.lines, to_turned, least=0.7) >= 0.9
    assert share_landed(words(read), words(found), to_turned, least=0.5) >= 0.97
