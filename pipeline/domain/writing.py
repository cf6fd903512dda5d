"""What kind of writing a text is in."""

import unicodedata


def is_cjk(character: str) -> bool:
    """Whether a character is set solid, without spaces around it: Han, kana, Hangul and their punctuation."""
    return unicodedata.east_asian_width(character) in ("W", "F")


def cjk_share(text: str) -> float:
    """Return which part of the characters, spaces apart, is Chinese, Japanese or Korean; 0 for an empty text."""
    seen = [character for character in text if not character.isspace()]
    return sum(map(is_cjk, seen)) / len(seen) if seen else 0.0
