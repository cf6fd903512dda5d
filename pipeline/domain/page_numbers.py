"""Page numbers: what one looks like, and which number it says."""

import re

_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_WRITTEN = ((100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))
_BARE = re.compile(
    r"[-–—·.~\[(\s]*(?:(?:page|seite|p\.|s\.|-?\s*第)\s*)?(?P<number>\d{1,4}|[ivxlc]{1,7}|[IVXLC]{1,7})"
    r"(?:\s*页|\s*頁)?(?:\s*(?:/|of|von|共)\s*\d{1,4}\s*页?)?[-–—·.~\])\s]*",
    re.IGNORECASE,
)
_FULL_WIDTH = str.maketrans("０１２３４５６７８９", "0123456789")


def page_number(text: str) -> int | None:
    """Return the number that a text says if it is only a page number, as `12`, `- 12 -`, `xii` and `Page 3 of 9`."""
    match = _BARE.fullmatch(text.translate(_FULL_WIDTH))
    return _value(match["number"]) if match else None


def _value(number: str) -> int | None:
    if number.isdigit():
        return int(number)
    digits = [_ROMAN[letter] for letter in number.lower()]
    following = [*digits[1:], 0]
    total = sum(-digit if digit < after else digit for digit, after in zip(digits, following, strict=True))
    return total if number in (_roman(total), _roman(total).upper()) else None


def _roman(value: int) -> str:
    """Return a number as a printer sets it, so that words of the same letters are told from it."""
    written = ""
    for worth, letters in _WRITTEN:
        written += letters * (value // worth)
        value %= worth
    return written
