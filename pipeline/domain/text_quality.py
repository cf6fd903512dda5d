"""How far a text layer can be trusted, judged by its characters alone. Pure.

Measured over the shared corpus: digital pages stay below 1 % of garbled characters unless a font lacks its map (25 %),
and of sixteen pages under an old recogniser's invisible text, the three that a person would not accept are those
with 1.5 % or more of their characters in odd words; the next worst has 0.9 %.
"""

import re

HYPHEN_MARKS = "\x02\ufffe"
"""What PDFium puts for a hyphen at the end of a line that divides a word."""

_GARBLED = re.compile("[\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff\x00\x01\x03-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LONE_SYMBOL = re.compile("(?<!\\S)[\uf000-\uf0ff](?!\\S)")
"""One code of a symbol font, alone: a bullet, which says nothing about the text around it."""

_PUNCTUATION = ".,;:!?()[]{}\"'“”‘’«»„-–—/*†‡•…%$£#&"
_JOINTS = re.compile("[\x02\ufffe'’\\-–—/.,&:()]")
_ODD = re.compile(
    r"[~^<>|\\=€@?!*{}\"_•]"  # a symbol inside a word
    r"|[a-z][A-Z]{2}|[a-z][A-Z][a-z]*[A-Z]"  # capitals in the middle
    r"|[A-Za-z]\d+[a-z]"  # a digit in the middle
    r"|(?a:[bcdfghjklmnpqrstvwxz]{7})"  # more consonants in a row than "Wirthschaft" has
)
_NO_VOWEL = re.compile(r"[A-Za-z][b-df-hj-np-tv-xz]{4,}")
_ODD_BEGINNING = re.compile(r"[.,;:!?][a-z]{3}")
_LONGEST_WORD = 24


def visible_count(text: str) -> int:
    """Return how many characters leave a mark."""
    return sum(map(len, text.split()))


def garbled_count(text: str) -> int:
    """Return how many characters stand for nothing: unmapped, private use, control; bullets apart."""
    return len(_GARBLED.findall(_LONE_SYMBOL.sub("", text)))


def odd_share(text: str) -> float:
    """Return the share of characters in words that no language written in Latin letters has, as bad OCR leaves them.

    Other scripts have no part in it: a Chinese page has a share of 0.
    """
    words = [word for word in text.split() if "~" in word or any(map(str.isalpha, word))]
    odd = sum(len(word) for word in words if _is_odd(word))
    return odd / sum(map(len, words)) if words else 0.0


def _is_odd(word: str) -> bool:
    core = _JOINTS.sub("", word.strip(_PUNCTUATION))
    if _ODD.search(core) or _ODD_BEGINNING.match(word):
        return True
    return core.isascii() and (len(core) > _LONGEST_WORD or _NO_VOWEL.fullmatch(core) is not None)
