"""What kind of writing a text is in."""

import unicodedata


def is_cjk(character: str) -> bool:
    """Whether a character is set solid, without spaces around it: Han, kana, Hangul and their punctuation."""
    return unicodedata.east_asian_width(character) in ("W", "F")


def cjk_share(text: str) -> float:
    """Return which part of the characters, spaces apart, is Chinese, Japanese or Korean; 0 for an empty text."""
    seen = [character for character in text if not character.isspace()]
    return sum(map(is_cjk, seen)) / len(seen) if seen else 0.0


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return where each word begins and ends: what stands between spaces, and each ideograph by itself."""
    spans: list[tuple[int, int]] = []
    for place, character in enumerate(text):
        if character.isspace():
            continue
        begins = place == 0 or text[place - 1].isspace() or is_cjk(character) or is_cjk(text[place - 1])
        spans.append((place, place + 1) if begins else (spans.pop()[0], place + 1))
    return spans


def width_em(text: str) -> float:
    """Return about how broad a text is set, in the size of its type."""
    return sum(map(_advance_em, text))


def _advance_em(character: str) -> float:
    # Means of the usual serif and sans-serif types.
    if is_cjk(character):
        return 1.0
    if character.isspace() or character in "iljtfrI.,;:!'|()[]-":
        return 0.3
    if character in "mwMW":
        return 0.8
    return 0.66 if character.isupper() else 0.5
