"""Orders names as people do: page 2 before page 10, whatever stands before and behind the numbers. Pure."""

import re
import unicodedata

_NUMBERS = re.compile(r"([0-9]+)")

_Pieces = tuple[str | tuple[int, str], ...]
NaturalKey = tuple[tuple[tuple[_Pieces, str], ...], str]


def natural_key(name: str) -> NaturalKey:
    """Return what to sort a path by: folder by folder, each name before its extension, numbers by their value.

    Full-width digits count as digits, and capitals as small letters; names that differ in nothing else keep an order.
    """
    folders = unicodedata.normalize("NFKC", name).casefold().replace("\\", "/").split("/")
    return tuple(_part(part) for part in folders), name


def _part(part: str) -> tuple[_Pieces, str]:
    stem, dot, extension = part.rpartition(".")
    if not dot:
        stem, extension = part, ""
    # Text and numbers take turns, so that each is compared with its like; no number is too long for this.
    pieces = _NUMBERS.split(stem)
    return tuple(_value(piece) if index % 2 else piece for index, piece in enumerate(pieces)), extension


def _value(digits: str) -> tuple[int, str]:
    significant = digits.lstrip("0")
    return len(significant), significant
