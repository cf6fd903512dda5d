"""Text that goes round in circles: what models that generate it fall into, and what they must be stopped in. Pure."""

from dataclasses import dataclass

LONGEST_TURN = 400
"""Characters; a whole paragraph may be said again and again."""
_FEWEST_TURNS = 6
_SHORTEST_SPAN = 300
_SHORT_TURN = 4
_SHORTEST_SPAN_OF_SHORT_TURNS = 1000
"""Leaders, rules and empty cells of tables are short turns that pages are full of."""
_LOOKED_AT = LONGEST_TURN * (_FEWEST_TURNS + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """The end of a text that says the same again and again."""

    turn: str
    span: int
    """How many characters the turns have together, the first included."""

    def cut(self, text: str) -> str:
        """Return the text with one turn of the loop at its end."""
        return text[: len(text) - self.span + len(self.turn)]


def loop_at_end(text: str) -> Loop | None:
    """Return the loop that a text ends in, if it ends in one; the shortest turn that explains it."""
    tail = text[-_LOOKED_AT:][::-1]
    matches = _prefix_matches(tail)
    for length in range(1, min(LONGEST_TURN, len(tail) - 1) + 1):
        if matches[length] + length < max(_SHORTEST_SPAN, _FEWEST_TURNS * length):
            continue
        # Whatever longer turn would fit as well is made of this one.
        loop = Loop(turn=text[-length:], span=_whole_span(text, length))
        is_usual = length <= _SHORT_TURN and loop.span < _SHORTEST_SPAN_OF_SHORT_TURNS
        return None if is_usual or loop.turn.isspace() else loop
    return None


def _prefix_matches(text: str) -> list[int]:
    """Return for each place how far the text from there on is like its beginning (the Z function; Gusfield 1997)."""
    matches = [0] * len(text)
    left = right = 0
    for at in range(1, len(text)):
        if at < right:
            matches[at] = min(right - at, matches[at - left])
        while at + matches[at] < len(text) and text[matches[at]] == text[at + matches[at]]:
            matches[at] += 1
        if at + matches[at] > right:
            left, right = at, at + matches[at]
    return matches


def _whole_span(text: str, length: int) -> int:
    """Return how much of the end repeats with this period, also before what was looked at."""
    first = len(text) - length
    while first > 0 and text[first - 1] == text[first - 1 + length]:
        first -= 1
    return len(text) - first
