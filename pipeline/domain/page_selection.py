"""Which pages of a document are wanted, as people write it: `3-10,15` or `3-`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count

MAX_CHARACTERS = 500
_PART = re.compile(r"\s*([1-9][0-9]{0,8})\s*(?:(-)\s*([1-9][0-9]{0,8})?\s*)?")


@dataclass(frozen=True, slots=True)
class PageSelection:
    """Ranges of pages, counted from 1, both ends included; ascending and apart. The last may have no end."""

    ranges: tuple[tuple[int, int | None], ...]

    def numbers(self) -> Iterator[int]:
        """Yield the pages, ascending; for ever, where the last range has no end."""
        return chain.from_iterable(
            count(first) if last is None else range(first, last + 1) for first, last in self.ranges
        )

    def within(self, page_count: int) -> list[int]:
        """Return those pages of a document. Raises: ValueError, if it has not all that are named."""
        furthest = max(last or first for first, last in self.ranges)
        if furthest > page_count:
            raise ValueError(f"names page {furthest}, but the document has {page_count}")
        return [
            number for first, last in self.ranges for number in range(first, (page_count if last is None else last) + 1)
        ]

    def __str__(self) -> str:
        return ",".join(_shown(first, last) for first, last in self.ranges)


def parse_pages(text: str) -> PageSelection:
    """Return what a text means, whatever the order of its parts. Raises: ValueError, which says what is wrong."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"must have at most {MAX_CHARACTERS} characters")
    return PageSelection(tuple(_joined(sorted((_part(part) for part in text.split(",")), key=lambda part: part[0]))))


def _part(text: str) -> tuple[int, int | None]:
    match = _PART.fullmatch(text)
    if match is None:
        raise ValueError(f"must be pages such as 3-10,15 or 3-, not {text.strip()[:40]!r}")
    first, dash, last = int(match[1]), match[2], match[3]
    if last is not None and int(last) < first:
        raise ValueError(f"has {first}-{last}, which ends before it begins")
    return first, int(last) if last else None if dash else first


def _joined(parts: list[tuple[int, int | None]]) -> Iterator[tuple[int, int | None]]:
    first, last = parts[0]
    for following, end in parts[1:]:
        if last is None:
            break
        if following <= last + 1:
            last = None if end is None else max(last, end)
        else:
            yield first, last
            first, last = following, end
    yield first, last


def _shown(first: int, last: int | None) -> str:
    if last is None:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"
