"""Formulas set apart from the text: lines of signs, figures and single letters around a relation."""

import re

from pipeline.domain.paragraphs import Column, Paragraph
from pipeline.domain.writing import cjk_share

MAX_ROWS = 3
SIGN_SHARE = (0.3, 0.65)
"""Less is text, more is rubbish."""
MAX_WORDS = 1
INDENT_EM = 1.0
_RELATION = re.compile(r"(?<![=:!<>])[=≈≠≤≥≡∝∈⊂→⇒](?!=)")
_OPERATOR = re.compile(r"[+−×÷±∑∏∫√∂∇∞·/*^|()\[\]Α-Ωα-ω]|(?<=\s)-(?=\s)")
_WORD = re.compile(r"(?!sin|cos|tan|log|exp|lim|max|min|arg|det|mod)[^\W\d_]{3,}")
_CODE = re.compile(r"[;{}]|//|:=|\+\+")
_NUMBER_AT_END = re.compile(r"\s*\(\d{1,3}(\.\d{1,3})?[a-z]?\)$")


def is_formula(paragraph: Paragraph, column: Column) -> bool:
    """Whether a paragraph is a formula, with the number at its right end or without it."""
    text = _NUMBER_AT_END.sub("", paragraph.text)
    if len(paragraph.rows) > MAX_ROWS or not _RELATION.search(text) or not _OPERATOR.search(text):
        return False
    if _CODE.search(text) or cjk_share(text) > 0 or len(_WORD.findall(text)) > MAX_WORDS:
        return False
    is_indented = paragraph.box.left - column.left > INDENT_EM * paragraph.em
    return is_indented and SIGN_SHARE[0] <= _sign_share(text) <= SIGN_SHARE[1]


def _sign_share(text: str) -> float:
    seen = "".join(text.split())
    return sum(not character.isalnum() for character in seen) / len(seen)
