"""What a model has said of a page, with how sure it was of each part."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Generated text and, where the model tells them, its tokens with their probabilities."""

    text: str
    tokens: Sequence[str] = field(default=(), repr=False)
    """Together they are the text."""
    probabilities: Sequence[float] = ()
    """One for each token, in [0, 1]."""

    def part(self, start: int, end: int) -> "Said":
        """Return what was said from one character to another; tokens that lie across a border are cut."""
        own: list[tuple[str, float]] = []
        at = 0
        for token, probability in zip(self.tokens, self.probabilities, strict=True):
            if cut := token[max(0, start - at) : max(0, end - at)]:
                own.append((cut, probability))
            at += len(token)
        return Said(text=self.text[start:end], tokens=[cut for cut, _ in own], probabilities=[sure for _, sure in own])

    def confidence(self, start: int, end: int) -> float | None:
        """Return the mean probability of the tokens from one character to another; None if none was told."""
        if not self.probabilities or end <= start:
            return None
        starts = [0, *accumulate(map(len, self.tokens))]
        first = max(0, bisect_right(starts, start) - 1)
        last = max(first + 1, bisect_right(starts, end - 1))
        own = self.probabilities[first:last]
        return min(1.0, max(0.0, sum(own) / len(own))) if own else None
