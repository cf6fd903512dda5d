"""How far what was read is from what stands there. Pure; shares are of 1."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq, Levenshtein

_UMLAUTS = {"a\u0364": "ä", "o\u0364": "ö", "u\u0364": "ü"}
_LINE_END_HYPHEN = re.compile(r"[-\u2010\u00ad]\s*\n\s*")
_NOT_COMPARED = re.compile(r"[\s\-'\"“”‘’«»„‐–—]")
_IDEOGRAPH = "\u2e80-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|[^\W_{_IDEOGRAPH}]+")
_FINDABLE = 6
"""Shorter lines stand on a page more than once."""
_FOUND = 80.0


def folded(text: str) -> str:
    """Return the text without what readers and typesetters do as they like.

    NFKC, no letter case, long s as s, a small e above as an umlaut, words divided at a line's end made whole.
    """
    text = unicodedata.normalize("NFKC", text).replace("ſ", "s")
    for old, new in _UMLAUTS.items():
        text = text.replace(old, new)
    return _LINE_END_HYPHEN.sub("", text).casefold()


def characters(text: str) -> str:
    """Return what is compared by the character: folded, without white space, hyphens, dashes and quotation marks."""
    return _NOT_COMPARED.sub("", folded(text))


def words(text: str) -> list[str]:
    """Return what is compared by the word: folded, without punctuation; each ideograph is a word."""
    return _WORD.findall(folded(text))


def error_rate(read: Sequence[object], true: Sequence[object]) -> float:
    """Return the least number of insertions, deletions and substitutions, over the length of what is true."""
    return Levenshtein.distance(read, true) / max(1, len(true))


def reading_order(read: str, true: str) -> float | None:
    """Return the share of true lines that follow each other as they should, of those that were found at all.

    The longest run of lines, gaps allowed, whose places in what was read ascend, over all lines found. None, where
    fewer than two lines are long enough to be looked for and were read well enough to be found.
    """
    page = characters(read)
    places = [found for line in true.splitlines() if (found := _place_of(characters(line), page)) is not None]
    if len(places) < 2:
        return None
    return LCSseq.similarity(places, sorted(places)) / len(places)


def _place_of(line: str, page: str) -> int | None:
    if len(line) < _FINDABLE or len(page) < len(line):
        return None
    found = fuzz.partial_ratio_alignment(line, page, score_cutoff=_FOUND)
    return found.dest_start if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineScore:
    """One line as read: how sure the engine was, and how much of it stands on the page."""

    confidence: float
    right: float
    """Share of its characters, at the place of the page where it fits best."""


def line_score(line: str, confidence: float, true: str) -> LineScore | None:
    """Return how right a line is; None if nothing on it is compared."""
    said, page = characters(line), characters(true)
    if not said:
        return None
    if said in page:
        return LineScore(confidence=confidence, right=1.0)
    if len(page) <= len(said):
        return LineScore(confidence=confidence, right=max(0.0, 1 - error_rate(said, page)))
    found = fuzz.partial_ratio_alignment(said, page)
    there = page[found.dest_start : found.dest_end] if found else ""
    return LineScore(confidence=confidence, right=max(0.0, 1 - error_rate(there, said)))
