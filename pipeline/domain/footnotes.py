"""Footnotes: marked notes at the foot of a column, in smaller type than the text above them."""

import re
from collections.abc import Sequence

from pipeline.domain.body_type import BodyType
from pipeline.domain.geometry import Box
from pipeline.domain.paragraphs import Paragraph

SMALLER = 0.93
"""Times the size of the text."""
TEXT_SIZE = 1.2
TEXT_ROWS = 3
FROM = 0.4
"""Part of the page's height above which small text with numbers is a list of references rather than notes."""
SIGNED_FROM = 0.5
"""The same for notes with an asterisk or dagger that are not set smaller."""
SAME_SIZE = 1.08
_SIGN = re.compile(r"\*{1,3}\)|\*{1,3}(?=\w)|[†‡]{1,2}\)?")
_NUMBER = re.compile(r"([(（]?\d{1,3}[)）]|\d{1,2}\.?|[a-z]\)|[①-⑳]|[¹²³⁰-⁹]{1,3})\s*(?=[^\W\d]|[“\"‘«„《「])")


def footnotes(paragraphs: Sequence[Paragraph], body: BodyType, page: Box) -> frozenset[int]:
    """Return which paragraphs of a column are notes; what follows a note in type of its size belongs to it."""
    text_size = _text_size(paragraphs, body)
    found: set[int] = set()
    for index, paragraph in enumerate(paragraphs):
        is_small = body.is_sure and paragraph.size <= SMALLER * text_size
        place = (paragraph.box.top - page.top) / page.height
        follows_note = index - 1 in found and paragraph.size < text_size
        if (
            (follows_note and _are_small([paragraph], paragraphs[index - 1]))
            or (place > FROM and is_small and _begins_small_note(paragraphs[index:]))
            or (place > SIGNED_FROM and _are_signed(paragraphs[index:]))
        ):
            found.add(index)
    return frozenset(found)


def _begins_small_note(paragraphs: Sequence[Paragraph]) -> bool:
    """Whether the first of some paragraphs has the mark of a note; after a number only notes may follow."""
    note = paragraphs[0]
    if _SIGN.match(note.text):
        return True
    return _NUMBER.match(note.text) is not None and _are_small(paragraphs, note)


def _are_small(paragraphs: Sequence[Paragraph], note: Paragraph) -> bool:
    return all(paragraph.size <= SAME_SIZE * note.size for paragraph in paragraphs)


def _are_signed(paragraphs: Sequence[Paragraph]) -> bool:
    return all(_SIGN.match(paragraph.text) for paragraph in paragraphs)


def _text_size(paragraphs: Sequence[Paragraph], body: BodyType) -> float:
    """Return the size of the text of a column, which is not that of most lines where notes fill the page."""
    sizes = [paragraph.size for paragraph in paragraphs if len(paragraph.rows) >= TEXT_ROWS]
    return max([body.size, *(size for size in sizes if size <= TEXT_SIZE * body.size)])
