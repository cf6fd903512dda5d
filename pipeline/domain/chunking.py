"""Takes a document apart: page facts become page ranges that each keep one device busy for about the same time.

The split step calls it once for each document; equal facts and settings give equal chunks, so planning twice is safe.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import assert_never

from pipeline.domain.document import Lane, PageClass, PageFacts, PageRange, PlannedChunk
from pipeline.domain.options import LanePolicy

SMALLEST_CHUNK = timedelta(seconds=10)
"""Idle devices alone are no reason to take a document apart further: claims, leases and segments cost time, too."""

DEVICES_TO_COME = 4
"""None is live before the first has registered, and soon there are some: they would wait for the last long chunk."""

FAST_PAGES = 8
"""Up to this many pages to recognise, a document does not wait for an accelerator."""

_A4_MEGAPIXELS = 3.87
"""An A4 page at 200 dpi, for which `page_ms` is given."""
_SMALLEST_SHARE = 0.25
"""Of an A4 page's time: what recognising costs however small the page is."""
_TEXT_LAYER_MS = 15
_NO_WORK_MS = 1


def plan_chunks(
    facts: Sequence[PageFacts], *, lane: Lane, target: timedelta, max_pages: int, page_ms: int, devices: int
) -> tuple[PlannedChunk, ...]:
    """Return chunks that cover the pages once each, in order, near the target time and never above `max_pages`.

    A chunk has no gaps: pages that do not follow each other are in different ones. The number of chunks is rounded up
    to a multiple of the devices, so that they all work until the end, as long as a chunk keeps at least
    `SMALLEST_CHUNK` of work. A chunk takes at most the target time and one page more.

    Args: page_ms is the time to recognise an A4 page at 200 dpi on one device of the lane; devices counts those that
        are live on the lane, where 0 plans for `DEVICES_TO_COME`.
    Raises: ValueError, if there are no facts, they do not ascend, or a bound is below 1.
    """
    _check_bounds(target=target, max_pages=max_pages, page_ms=page_ms)
    if not facts or any(page.number >= following.number for page, following in pairwise(facts)):
        raise ValueError("a plan needs the facts of at least one page, ascending")
    costs_ms = {page.number: page_cost_ms(page, page_ms=page_ms) for page in facts}
    ranges = [
        part
        for run in _runs([page.number for page in facts])
        for part in _ranges(run, costs_ms, target=target, max_pages=max_pages, devices=devices or DEVICES_TO_COME)
    ]
    return tuple(
        PlannedChunk(ordinal=ordinal, pages=pages, lane=lane, cost_ms=sum(costs_ms[number] for number in pages))
        for ordinal, pages in enumerate(ranges)
    )


def choose_lane(
    policy: LanePolicy, facts: Iterable[PageFacts], *, has_accelerator: bool, fast_pages: int = FAST_PAGES
) -> Lane:
    """Return the lane for a document's chunks: as asked, or by its length where that is left to us."""
    match policy:
        case LanePolicy.CPU:
            return Lane.CPU
        case LanePolicy.GPU:
            return Lane.GPU
        case LanePolicy.AUTO:
            is_long = pages_to_recognise(facts) > fast_pages
            return Lane.GPU if has_accelerator and is_long else Lane.CPU
        case _:
            assert_never(policy)


def pages_to_recognise(facts: Iterable[PageFacts]) -> int:
    """Return how many pages an engine will have to read."""
    return sum(page.page_class in (PageClass.SCAN, PageClass.MIXED) for page in facts)


def page_cost_ms(page: PageFacts, *, page_ms: int) -> int:
    """Return how long one page is expected to keep a device, in milliseconds, at least 1.

    Args: page_ms is the time to recognise an A4 page at 200 dpi; larger pages cost more in proportion to their pixels.
    """
    match page.page_class:
        case PageClass.SCAN | PageClass.MIXED:
            share = max(_SMALLEST_SHARE, page.megapixels / _A4_MEGAPIXELS)
            return max(1, round(page_ms * share))
        case PageClass.TEXT_LAYER:
            return _TEXT_LAYER_MS
        case PageClass.BLANK | PageClass.UNREADABLE:
            return _NO_WORK_MS
        case _:
            assert_never(page.page_class)


def _check_bounds(*, target: timedelta, max_pages: int, page_ms: int) -> None:
    if target < timedelta(milliseconds=1) or max_pages < 1 or page_ms < 1:
        raise ValueError(f"no chunks within target {target}, max_pages {max_pages}, page_ms {page_ms}")


def _runs(numbers: Sequence[int]) -> Iterator[PageRange]:
    """Yield the longest ranges without gaps."""
    first = numbers[0]
    for number, following in pairwise(numbers):
        if following != number + 1:
            yield PageRange(first=first, last=number)
            first = following
    yield PageRange(first=first, last=numbers[-1])


def _ranges(
    run: PageRange, costs_ms: Mapping[int, int], *, target: timedelta, max_pages: int, devices: int
) -> Iterator[PageRange]:
    costs = [costs_ms[number] for number in run]
    count = _chunk_count(sum(costs), target=target, devices=devices)
    for before, until in pairwise(_cuts(costs, count)):
        for part in _equal_parts(before, until, max_pages=max_pages):
            yield PageRange(first=run.first - 1 + part.first, last=run.first - 1 + part.last)


def _chunk_count(total_ms: int, *, target: timedelta, devices: int) -> int:
    """Return into how many parts of equal cost the document goes."""
    target_ms = target / timedelta(milliseconds=1)
    smallest_ms = min(SMALLEST_CHUNK / timedelta(milliseconds=1), target_ms)
    needed = math.ceil(total_ms / target_ms)
    even = math.ceil(needed / devices) * devices
    worthwhile = int(total_ms / smallest_ms)
    return max(1, needed, min(even, worthwhile))


def _cuts(costs_ms: Sequence[int], count: int) -> list[int]:
    """Return where to cut, 0 and the end included: the page borders nearest to `count` equal shares of the cost."""
    spent = list(accumulate(costs_ms, initial=0))
    cuts = {0, len(costs_ms)}
    for part in range(1, count):
        share = spent[-1] * part / count
        border = bisect_left(spent, share)
        is_nearer_before = share - spent[border - 1] < spent[border] - share
        cuts.add(border - 1 if is_nearer_before else border)
    return sorted(cuts)


def _equal_parts(before: int, until: int, *, max_pages: int) -> Iterator[PageRange]:
    """Yield the pages after `before`, up to `until`, in as few parts as the bound allows, equally long."""
    length = until - before
    count = math.ceil(length / max_pages)
    for start, end in pairwise(before + length * part // count for part in range(count + 1)):
        yield PageRange(first=start + 1, last=end)
