"""Doubts about a page that has been read: what its lines and a look at its picture speak against. Pure.

Each score is 0.5 where its flag begins and nears 1 as what it is about gets worse, so that flags can be compared. How
the thresholds were measured: docs/quality.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.domain.geometry import sides, weighted_median
from pipeline.domain.languages import Language, foreign_share
from pipeline.domain.placed_lines import place
from pipeline.domain.recognition import Flag, Line
from pipeline.domain.repetition import repeated_share
from pipeline.domain.text_angle import text_angle
from pipeline.domain.text_quality import odd_share
from pipeline.domain.writing import width_em

LEAST_TEXT_EM = 20.0
"""Shorter text, all lines together in heights of them, says too little of a page."""
LEAST_CHARACTERS = 40
"""The same of text alone."""
UNSURE_SHARE = 0.5
"""Share of the text in lines below the confidence of its engine's good lines (`ReadPage.sure`). Fraktur has 0.65 to
0.93 of it, no other page more than 0.33; read by Tesseract 0.61 to 0.89, and others up to 0.18."""
PEN_EM = 0.07
"""Breadth of strokes of an unsure page, in heights of its lines, up to which they are a pen's and not type's. Pages
written by hand have 0.045 to 0.067, two covers with a printed stamp and a few written words 0.08, printed ones that
are unsure 0.084 to 0.16."""
TYPE_PX = 15.0
"""Height of type as scanned. Clean pages made smaller lose first characters at 11 to 14, a tenth of them at 10."""
EDGE_SHARE = 0.12
EDGE_PX = 3.0
"""From ink to paper, in heights of the type, and at least. Scans have up to 0.07, clean pages blurred until lines are
lost 0.14 to 0.24."""
SKEW_DEG = 1.5
"""Straight scans are within 0.9, and pages turned by 3 degrees are read like straight ones."""
SHOWN_THROUGH = 0.25
"""Two old books have 0.11 to 0.47, a page with a picture and shades 0.18, all others less."""
ODD_SHARE = 0.2
"""Pages that are read right have up to 0.05, and 0.15 where a name is spelled oddly in each line."""
FOREIGN_SHARE = 0.25
"""Of letters; names and quotations are in other letters everywhere."""
SPELLED_SHARE = 0.6
"""How much of the length of its lines a text would take. Greek has 0.56 of it, Russian 0.14, the alphabet lacking the
rest; letterspaced typewriting has 0.71, all other pages more than 0.95."""
REPEATED_SHARE = 0.05
"""Pages have none, but for one of the corpus that was made of the word "test"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLook:
    """What a look at a page's picture found; None where there was nothing to judge by."""

    edge_px: float | None = None
    """From ink to paper at the edges of its letters, in pixels of the page."""
    shown_through: float | None = None
    """Share of the paper's parts that have faint marks between their lines."""
    stroke_em: float | None = None
    """Average breadth of the strokes of letters, in heights of their lines."""


def page_doubts(
    lines: Sequence[Line], look: PageLook, *, sure: float, enlarged: float = 1.0, languages: Sequence[Language] = ()
) -> tuple[Flag, ...]:
    """Return what speaks against a page that was read so.

    Args: lines in pixels of the page; sure is the confidence that the engine has in most lines of good pages; enlarged
        is how much larger than its scan the page was rendered, 1 or more; languages are those that it should be in, if
        that is known.
    """
    if sum(_length_em(line) for line in lines) < LEAST_TEXT_EM:
        return ()
    texts = [line.text for line in lines]
    return (
        *_doubts_of_picture(lines, look, sure, enlarged),
        *_doubts_of_text(texts, languages, spelled=spelled_share(lines)),
    )


def text_doubts(texts: Sequence[str], languages: Sequence[Language] = ()) -> tuple[Flag, ...]:
    """Return what speaks against lines of which nobody knows where they stand."""
    return tuple(_doubts_of_text(texts, languages)) if sum(map(len, texts)) >= LEAST_CHARACTERS else ()


def skew(lines: Sequence[Line]) -> float:
    """Return by how many degrees clockwise the text is off the nearest edge of the page, -45 to 45."""
    return (text_angle(lines) + 45) % 90 - 45 if lines else 0.0


def _doubts_of_picture(lines: Sequence[Line], look: PageLook, sure: float, enlarged: float) -> Iterator[Flag]:
    if (unsure := unsure_share(lines, sure)) >= UNSURE_SHARE:
        yield Flag(name="low_confidence", score=_over(unsure, UNSURE_SHARE))
        if look.stroke_em is not None and 0 < look.stroke_em <= PEN_EM:
            yield Flag(name="handwriting_suspected", score=_under(look.stroke_em, PEN_EM))
    height_px = type_height(lines)
    if (scanned_px := height_px / enlarged) <= TYPE_PX:
        yield Flag(name="low_resolution", score=_under(scanned_px, TYPE_PX))
    if look.edge_px is not None and look.edge_px >= (widest := max(EDGE_PX, EDGE_SHARE * height_px)):
        yield Flag(name="blurred", score=_over(look.edge_px, widest))
    if (off := abs(skew(lines))) >= SKEW_DEG:
        yield Flag(name="skewed", score=_over(off, SKEW_DEG))
    if look.shown_through is not None and look.shown_through >= SHOWN_THROUGH:
        yield Flag(name="bleed_through", score=_over(look.shown_through, SHOWN_THROUGH))


def _doubts_of_text(texts: Sequence[str], languages: Sequence[Language], *, spelled: float = 1.0) -> Iterator[Flag]:
    text = "\n".join(texts)
    unexpected = [odd_share(text) / ODD_SHARE, SPELLED_SHARE / max(0.01, spelled)]
    if languages:
        unexpected.append(foreign_share(text, languages) / FOREIGN_SHARE)
    if (worst := max(unexpected)) >= 1:
        yield Flag(name="language_unexpected", score=_over(worst, 1))
    if (repeated := repeated_share(texts)) >= REPEATED_SHARE:
        yield Flag(name="repetition", score=_over(repeated, REPEATED_SHARE))


def unsure_share(lines: Sequence[Line], sure: float) -> float:
    """Return the share of characters in lines of less than that confidence; 0 if no line has one."""
    judged = [(line.confidence, len(line.text)) for line in lines if line.confidence is not None]
    every = sum(length for _, length in judged)
    return sum(length for confidence, length in judged if confidence < sure) / every if every else 0.0


def spelled_share(lines: Sequence[Line]) -> float:
    """Return how much of the length of the lines their text would take, set in type of their height: about 1."""
    length = sum(map(_length_em, lines))
    return sum(width_em(line.text) for line in lines) / length if length else 1.0


def _length_em(line: Line) -> float:
    """Return how long a line is, in its height, whichever way it runs."""
    both = sides(line.polygon)
    return max(both) / max(1.0, min(both))


def type_height(lines: Sequence[Line]) -> float:
    """Return about how high the type is that most of the text is set in, in pixels; there is at least one line."""
    angle_deg = text_angle(lines)
    return weighted_median((place(line, angle_deg).size, len(line.text)) for line in lines)


def _over(value: float, threshold: float) -> float:
    return 1 - threshold / (2 * value)


def _under(value: float, threshold: float) -> float:
    return 1 - max(0.0, value) / (2 * threshold)
