"""Headings: what stands out from the text below it by size, weight, numbering, capitals or the space around it.

Each sign alone also occurs in captions, labels and lists, so all but a much larger size need further ones.
"""

import re
from collections.abc import Sequence

from pipeline.domain.body_type import BodyType
from pipeline.domain.captions import is_caption
from pipeline.domain.item_marks import mark_of
from pipeline.domain.paragraphs import GAP_EM, Column, Paragraph, is_spread
from pipeline.domain.writing import cjk_share

LARGE = 1.3
"""Times the size of the body; of lines in one type it is judged to within a twelfth."""
VERY_LARGE = 1.6
LARGER = 1.12
SMALLEST = 0.85
MAX_ROWS = 3
MAX_CHARACTERS = 160
MAX_PLAIN_CHARACTERS = 80
MIN_TEXT_CHARACTERS = 40
"""Text below a heading is at least this long, and this broad in heights of its lines; labels in a figure are not."""
MIN_TEXT_EM = 10.0

_SECTION = re.compile(r"(?P<number>\d{1,2}(\.\d{1,2}){0,4})\.?\s+(?=[^\W\d_])|(?P<roman>[IVX]{1,5})\.\s+(?=[^\W\d_])")
_CHAPTER = re.compile(
    r"第\s*[一二三四五六七八九十百零〇\d]{1,5}\s*(?P<han>[篇编部卷章节])(?!\S*[，。])"
    r"|(?P<latin>(?i:part|chapter|section|appendix|kapitel|abschnitt|chapitre))\s+([IVXLC]{1,6}|\d{1,3}|[A-Z])\b[.:]?"
)
_LEVELS = {"篇": 1, "编": 1, "部": 1, "卷": 1, "章": 2, "节": 3, "part": 1, "section": 3, "abschnitt": 3}
_ENDS_RUNNING_TEXT = re.compile(r"[.,;:，。；：、-]$")


def heading_level(paragraphs: Sequence[Paragraph], index: int, column: Column, body: BodyType) -> int | None:
    """Return the level of the heading that a paragraph is, 1 to 6, or None if it is none."""
    paragraph = paragraphs[index]
    text = paragraph.text
    if not _could_be(paragraph, text):
        return None
    ratio = paragraph.size / body.size if body.is_sure else 1.0
    following = paragraphs[index + 1].text if index + 1 < len(paragraphs) else ""
    if following[:1].islower():
        return None
    if ratio >= LARGE and _reads_as_title(text):
        return _numbered_level(text) or (1 if ratio >= VERY_LARGE else 2)
    below = _text_below(paragraphs, index, body)
    is_title = ratio >= SMALLEST and len(text) <= MAX_PLAIN_CHARACTERS and not _ENDS_RUNNING_TEXT.search(text)
    return _level_above_text(paragraph, below, column, body) if below and is_title else None


def _level_above_text(paragraph: Paragraph, below: Paragraph, column: Column, body: BodyType) -> int | None:
    """Return the level of a heading in about the size of the text below it, None if too little sets it apart."""
    if chapter := _CHAPTER.match(paragraph.text):
        return _LEVELS.get((chapter["han"] or chapter["latin"]).lower(), 2)
    if not _reads_as_title(paragraph.text):
        return None
    is_apart = _is_apart(paragraph, column)
    is_larger = paragraph.size >= LARGER * below.size
    if _SECTION.match(paragraph.text):
        return _numbered_level(paragraph.text) if is_apart or is_larger or paragraph.is_bold else None
    if mark_of(paragraph.text) or not _is_short(paragraph, column):
        return None
    is_bold = paragraph.is_bold and not body.is_bold
    return 3 if is_bold or (is_apart and (is_larger or _is_in_capitals(paragraph.text))) else None


def _could_be(paragraph: Paragraph, text: str) -> bool:
    letters = sum(character.isalpha() for character in text)
    return (
        len(paragraph.rows) <= MAX_ROWS
        and len(text) <= MAX_CHARACTERS
        and letters >= 2
        and 2 * letters >= len("".join(text.split()))
        and not any(map(is_spread, paragraph.rows))
        and not is_caption(text)
    )


def _reads_as_title(text: str) -> bool:
    """Whether a text begins as titles do and does not break off or end as running text does."""
    section = _SECTION.match(text)
    first = text[section.end() :][:1] if section else text[:1]
    return not first.islower() and not _ENDS_RUNNING_TEXT.search(text)


def _numbered_level(text: str) -> int | None:
    """Return the level that a section's number says: 2 for 1, 3 for 1.1."""
    section = _SECTION.match(text)
    if section is None:
        return None
    return 2 if section["roman"] else min(6, 2 + section["number"].count("."))


def _text_below(paragraphs: Sequence[Paragraph], index: int, body: BodyType) -> Paragraph | None:
    """Return the running text of the body's size that follows, after another heading perhaps; None if none does."""
    for below in paragraphs[index + 1 : index + 3]:
        enough = MIN_TEXT_CHARACTERS * (0.5 if cjk_share(below.text) > 0.5 else 1)
        is_body = SMALLEST * body.size <= below.size <= LARGER * max(body.size, paragraphs[index].size)
        is_broad = below.box.width >= MIN_TEXT_EM * below.em
        if len(below.text) >= enough and is_body and is_broad and not any(map(is_spread, below.rows)):
            return below
        if len(below.rows) > 2 or below.size < SMALLEST * body.size:
            return None
    return None


def _is_apart(paragraph: Paragraph, column: Column) -> bool:
    """Whether there is more space above it than between lines, or nothing at all."""
    return paragraph.gap_above is None or paragraph.gap_above > column.usual_gap + GAP_EM * paragraph.em


def _is_short(paragraph: Paragraph, column: Column) -> bool:
    return len(paragraph.rows) == 1 and paragraph.box.width < 0.8 * (column.right - column.left)


def _is_in_capitals(text: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    return len(letters) >= 4 and all(character.isupper() for character in letters)
