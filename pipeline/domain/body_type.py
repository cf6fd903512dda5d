"""The type that most of a page is set in, by which headings and notes are told from it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.domain.geometry import weighted_median
from pipeline.domain.placed_lines import Placed

MIN_LINES = 5
"""Of fewer lines none can be called the usual one: a cover, a form with one entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyType:
    """What most lines of a page are set in."""

    size: float
    is_bold: bool
    is_sure: bool
    """Whether the page has enough text to say so."""


def body_type(placed: Sequence[Placed]) -> BodyType:
    """Return the type of most of the text, measured by the area that it covers; there is at least one line."""
    areas = [(item, item.box.width * item.box.height) for item in placed]
    bold = sum(area for item, area in areas if item.is_bold)
    return BodyType(
        size=weighted_median((item.size, area) for item, area in areas),
        is_bold=2 * bold > sum(area for _, area in areas),
        is_sure=len(placed) >= MIN_LINES,
    )
