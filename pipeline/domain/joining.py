"""Turns the lines of a paragraph into one: hyphens at line ends undone, no spaces between Chinese characters."""

import unicodedata
from collections.abc import Iterable

_HYPHENS = "-\u2010\u00ad\u2e17"
"""Hyphen-minus, hyphen, soft hyphen, and the double hyphen of Fraktur."""
_SPACED_SCRIPTS = ("HANGUL",)
"""Wide characters that put spaces between words all the same."""
_NARROW_PUNCTUATION = "“”‘’…—·"
"""As wide as the text around it, which Unicode leaves open (East Asian Width: ambiguous)."""


def join_lines(lines: Iterable[str]) -> str:
    """Return the lines as one, joined as the words of their script are."""
    joined: list[str] = []
    for line in lines:
        stripped = line.strip()
        if stripped and joined:
            joined[-1] = _ended(joined[-1], stripped)
        if stripped:
            joined.append(stripped)
    return "".join(joined)


def goes_on(before: str, after: str) -> bool:
    """Whether a text breaks off within a sentence that another one goes on with, as from one column to the next."""
    ended, begun = before.rstrip(), after.lstrip()
    breaks_off = ended[-1:].isalpha() or ended[-1:] in (",", *_HYPHENS)
    return bool(ended) and breaks_off and begun[:1].islower()


def _ended(line: str, following: str) -> str:
    """Return the line such that the following one may stand right behind it."""
    last, first = line[-1], following[0]
    if last in _HYPHENS and line[-2:-1].isalnum():
        # Next to a capital or a digit the hyphen belongs to the word: Jean-Paul, 1914-1918.
        is_broken_word = line[-2].isalpha() and first.islower()
        return line[:-1] if is_broken_word else line
    return line if _is_set_solid(last, first) else f"{line} "


def _is_set_solid(last: str, first: str) -> bool:
    wide = _is_wide(last), _is_wide(first)
    if "—" in (last, first) and not any(wide):
        return True
    return all(wide) or (any(wide) and (last in _NARROW_PUNCTUATION or first in _NARROW_PUNCTUATION))


def _is_wide(character: str) -> bool:
    if unicodedata.east_asian_width(character) not in ("W", "F"):
        return False
    return not unicodedata.name(character, "").startswith(_SPACED_SCRIPTS)
