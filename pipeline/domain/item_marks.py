"""The bullets, numbers and letters that items of lists begin with."""

import re
from dataclasses import dataclass

_BULLET = re.compile(r"[•●○◦▪■□◆◇❖➢►‣⁃∙✓]\s*(?=\S)")
_SIGN = re.compile(r"[·*–-]\s+(?=\S)")
"""Bullets of typists, which also mean other things."""
_NUMBER = re.compile(
    r"(?P<open>[(（\[]?)(?P<value>\d{1,3})(?P<close>[)）\]、．](?!\d)|\.(?=\s|[^\W\d]))\s*(?=\S)(?![.,;])"
    r"|(?P<open_letter>[(（]?)(?P<letter>[a-z])(?P<close_letter>[.)）])\s+(?=\S)"
)
_HAN_NUMBER = re.compile(r"[（(]?[一二三四五六七八九十]{1,3}[、）)．]")
_NARROW = str.maketrans("（）．", "().")
_PAIRS = ("[]", "()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How an item begins."""

    family: str
    """The same for items of one list: the bullet, or the number 1 as it is marked."""
    text: str
    """The mark itself, with the space behind it."""
    value: int | None = None
    """Its number; that of a letter is its place in the alphabet."""

    @property
    def is_bullet(self) -> bool:
        """Whether it is a sign that stands for nothing else."""
        return _BULLET.match(self.family + "x") is not None

    @property
    def can_make_list(self) -> bool:
        """Whether several of them are taken for a list; Chinese numerals also number headings."""
        return self.family != "一"


def mark_of(text: str) -> Mark | None:
    """Return the mark that a text begins with, if it begins like an item of a list."""
    if sign := _BULLET.match(text) or _SIGN.match(text):
        return Mark(family=sign[0].strip(), text=sign[0])
    if number := _NUMBER.match(text):
        return _numbered(number)
    if numeral := _HAN_NUMBER.match(text):
        return Mark(family="一", text=numeral[0])
    return None


def _numbered(match: re.Match[str]) -> Mark | None:
    is_letter = match["letter"] is not None
    opening, closing = match["open_letter" if is_letter else "open"], match["close_letter" if is_letter else "close"]
    shape = (opening + closing).translate(_NARROW)
    if ("[" in shape or "(" in shape) and shape not in _PAIRS:
        return None
    value = ord(match["letter"]) - ord("a") + 1 if is_letter else int(match["value"])
    family = opening.translate(_NARROW) + ("a" if is_letter else "1") + closing.translate(_NARROW)
    return Mark(family=family, value=value, text=match[0])
