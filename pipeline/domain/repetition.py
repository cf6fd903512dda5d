"""Text that goes in circles, as models that generate it do when they lose the page. Pure."""

import re
from collections.abc import Iterable, Sequence

TIMES = 4
"""What is said three times may be a form or a poem."""
LONGEST_CIRCLE = 30
"""Words, or ideographs: a long sentence."""
FEWEST_LETTERS = 16
"""Of all turns together: "Ja Ja Ja Ja" is a column of a table."""
_WORD = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff]|[^\W\d_\u2e80-\u9fff\uf900-\ufaff]+")
"""Of letters alone: rows of zeros, leaders and rules go in circles on good pages, too."""


def repeated_share(lines: Iterable[str]) -> float:
    """Return the share of letters in circles within a line: the same words four times or more, on end.

    Lines are looked at one by one, as engines read them; that lines repeat each other is a matter of the document.
    """
    letters = repeated = 0
    for line in lines:
        words = _WORD.findall(line.casefold())
        letters += sum(map(len, words))
        repeated += _repeated(words)
    return repeated / letters if letters else 0.0


def _repeated(words: Sequence[str]) -> int:
    """Count the letters in circles."""
    in_circles = [False] * len(words)
    for length in range(1, min(LONGEST_CIRCLE, len(words) // TIMES) + 1):
        _mark(words, length, in_circles)
    return sum(len(word) for word, is_in in zip(words, in_circles, strict=True) if is_in)


def _mark(words: Sequence[str], length: int, in_circles: list[bool]) -> None:
    """Mark the words of each run in which every word is the one so many places before it."""
    first = 0
    for place in range(length, len(words) + 1):
        if place < len(words) and words[place] == words[place - length]:
            continue
        run = slice(first, place)
        if place - first >= TIMES * length and sum(map(len, words[run])) >= FEWEST_LETTERS:
            in_circles[run] = [True] * (place - first)
        first = place - length + 1
