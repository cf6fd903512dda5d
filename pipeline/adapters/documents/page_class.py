"""Decides how a page will get its text, from what its file says of it. Pure.

The thresholds were set over the shared corpus; `tests/adapters/documents/test_corpus.py` holds them to it.
"""

from dataclasses import dataclass, replace

from pipeline.domain.document import PageClass

_MOST_OF_THE_PAGE = 0.5
_GARBLED_SHARE = 0.05
_UNMAPPED_SHARE = 0.10
_ODD_SHARE = 0.012
"""See domain/text_quality.py."""
_FEW_CHARACTERS = 50
"""A page number, a stamp or a fax header over a scan has fewer; the shortest page of real text is a title."""
_PICTURE_OUTWEIGHS = 3
"""A picture is read beside the text if it could hold three times as much of it. Of 18 pages of an illustrated
manual this takes the cover and one page of screenshots; a line of text in a picture below 74 characters is found."""
_OUTLINED_SEGMENTS = 2000
"""Letters drawn as outlines take about 20 segments each; a bar code takes 200, a table's rules fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEvidence:
    """What was found on a page without rendering it."""

    draws: bool
    """Anything at all: text, lines, pictures, annotations that show."""
    characters: int = 0
    """Visible ones, within the page box."""
    garbled_share: float = 0.0
    unmapped_share: float = 0.0
    """Glyphs that the font gives no character for."""
    odd_share: float = 0.0
    hidden_share: float = 0.0
    """Text drawn invisibly or beneath a picture, as recognisers leave it."""
    covered_share: float = 0.0
    """Of the page, by pictures."""
    picture_capacity: int = 0
    """Characters of ordinary size for which the pictures have room."""
    path_segments: int = 0
    has_drawn_annotations: bool = False
    """Stamps, comments on the page, signatures, handwriting, captioned buttons."""


def page_class(page: PageEvidence) -> PageClass:
    """Return the class: blank, scan (recognise all of it), text layer, or mixed (text layer and recognise)."""
    if not page.draws:
        return PageClass.BLANK
    if not _has_usable_text(page):
        return PageClass.SCAN
    if _is_recognised_scan(page):
        return PageClass.TEXT_LAYER
    if _may_show_more(page):
        return PageClass.MIXED
    return PageClass.TEXT_LAYER


def _has_usable_text(page: PageEvidence) -> bool:
    if not page.characters or page.garbled_share > _GARBLED_SHARE or page.unmapped_share > _UNMAPPED_SHARE:
        return False
    if page.covered_share >= _MOST_OF_THE_PAGE and page.characters < _FEW_CHARACTERS:
        return False
    return not _is_poorly_recognised(page)


def has_poor_layer(page: PageEvidence) -> bool:
    """Whether a page would have its text layer, were that recognised better: a job may say that it will do."""
    return _is_poorly_recognised(page) and _has_usable_text(replace(page, odd_share=0.0))


def _is_poorly_recognised(page: PageEvidence) -> bool:
    """Whether a scan has the text of an earlier recogniser that made too many mistakes."""
    return _is_recognised_scan(page) and page.odd_share >= _ODD_SHARE


def _is_recognised_scan(page: PageEvidence) -> bool:
    return page.covered_share >= _MOST_OF_THE_PAGE and page.hidden_share >= 0.5


def layer_doubt(page: PageEvidence) -> float | None:
    """Return how bad a page's text is, 0.5 to 1, where for that alone it should not be used; else None."""
    ratios = [page.garbled_share / _GARBLED_SHARE, page.unmapped_share / _UNMAPPED_SHARE]
    if _is_recognised_scan(page):
        ratios.append(page.odd_share / _ODD_SHARE)
    worst = max(ratios)
    return 1 - 1 / (2 * worst) if page.characters and worst >= 1 else None


def _may_show_more(page: PageEvidence) -> bool:
    has_outlines = page.characters < _FEW_CHARACTERS and page.path_segments > _OUTLINED_SEGMENTS
    has_pictures = page.picture_capacity >= _PICTURE_OUTWEIGHS * page.characters
    return has_outlines or has_pictures or page.has_drawn_annotations
