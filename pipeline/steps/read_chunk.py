"""Read a chunk: what the process that owns the engine does with its pages, in batches as large as the engine takes.

A page that fails among others is read again in a batch of half the size, down to alone: only there is it known to be
the one at fault. Where memory ran out, the ladder of `domain/batches.py` is walked, and later batches stay as small.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pipeline.domain.batches import BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.recognition import PageResult
from pipeline.ports.chunks import PageTask
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import ReadPage, Recogniser
from pipeline.steps.read_pages import PageReader, Prepared


@dataclass(slots=True, kw_only=True)
class ChunkReader:
    """Reads the pages of one attempt at a chunk."""

    pages: PageReader
    engine: Recogniser
    bound: BatchBound
    """On a batch; lowered when memory runs out."""
    smaller: Callable[[PageImage, int], PageImage]
    """Gives a page with no more pixels than that."""
    stopped: Callable[[], bool]
    """Says at each border between two batches whether to go on."""
    begun: Callable[[Sequence[int]], None] = lambda _: None
    """Hears which pages are being worked on from now on."""
    lowered: Callable[[BatchBound], None] = lambda _: None
    """Hears that memory ran out, and of the bound from now on."""
    largest_pixels: int = 0
    """Of a batch that was read."""
    largest_pages: int = 0
    """That such a batch had."""
    tokens: int = 0
    """That the engine generated, if it is one that does."""
    tokens_of: dict[int, int] = field(default_factory=dict)
    """Of these, those for each page, by its number."""

    def read(self, tasks: Iterable[PageTask]) -> Iterator[PageResult]:
        """Yield each page's result, once, until all are done or it is stopped; some may overtake those in a batch.

        Raises: Transient: `out_of_memory`, if there is none for a page alone, however small, or to render it;
            `device_broken`.
        """
        batch: list[Prepared] = []
        for task in tasks:
            if self.stopped():
                return
            made = self._prepared(task)
            if made is None and batch:
                # Those that wait are what takes the memory. From now on, no more of them do.
                together = len(batch)
                yield from self._recognised(batch)
                batch = []
                self._keep_within(self.bound.at_most(together))
                made = self._prepared(task)
            if made is None:
                raise Transient(ErrorCode.OUT_OF_MEMORY, f"page {task.number}: the host has no memory to render it")
            if isinstance(made, PageResult):
                yield made
                continue
            if batch and sum(page.pixels for page in [*batch, made]) > self.bound.pixels:
                yield from self._recognised(batch)
                batch = []
            batch.append(made)
            if len(batch) >= self.bound.pages:
                yield from self._recognised(batch)
                batch = []
        yield from self._recognised(batch)

    def _prepared(self, task: PageTask) -> PageResult | Prepared | None:
        """Return what the engine is to see of a page, or its result if it needs none; None without memory for it."""
        self.begun([task.number])
        try:
            return self.pages.prepare(task)
        except MemoryError:
            return None

    def _recognised(self, batch: list[Prepared]) -> Iterator[PageResult]:
        waiting = [batch] if batch else []
        while waiting and not self.stopped():
            part = waiting.pop()
            if len(part) > self.bound.pages:
                waiting += reversed(_halves(part))
                continue
            self.begun([page.number for page in part])
            started = time.monotonic()
            shown = [self._shown(page.image) for page in part]
            outcomes = self._outcomes(shown)
            spent = timedelta(seconds=time.monotonic() - started) / len(part)
            again = []
            for page, image, outcome in zip(part, shown, outcomes, strict=True):
                if isinstance(outcome, ReadPage):
                    if outcome.tokens is not None:
                        self.tokens += outcome.tokens
                        self.tokens_of[page.number] = outcome.tokens
                    yield self.pages.recognised(page, outcome, spent, shown=image)
                elif len(part) > 1 or _is_starved(outcome):
                    again.append(page)
                else:
                    yield self.pages.failed(page.number, outcome, spent)
            if any(isinstance(outcome, ReadPage) for outcome in outcomes) and _pixels(shown) > self.largest_pixels:
                self.largest_pixels, self.largest_pages = _pixels(shown), len(shown)
            if starved := next(filter(_is_starved, outcomes), None):
                self._lower(shown, starved)
            waiting += reversed(_halves(again))

    def _shown(self, image: PageImage) -> PageImage:
        return image if self.bound.page_pixels is None else self.smaller(image, self.bound.page_pixels)

    def _outcomes(self, images: Sequence[PageImage]) -> list[ReadPage | RecognitionFailed]:
        try:
            results = iter(self.engine.read(images))
        except MemoryError:
            return [_no_memory(image.number) for image in images]
        return [_next(results, image.number) for image in images]

    def _lower(self, shown: Sequence[PageImage], starved: ReadPage | RecognitionFailed) -> None:
        lower = self.bound.lower(pages=len(shown), pixels=_pixels(shown))
        if lower is None:
            # Not the page's outcome: in a new process, or on another device, there may be enough.
            raise Transient(ErrorCode.OUT_OF_MEMORY, str(starved))
        self._keep_within(lower)

    def _keep_within(self, bound: BatchBound) -> None:
        self.bound = bound
        self.lowered(bound)


def _next(results: Iterator[ReadPage], number: int) -> ReadPage | RecognitionFailed:
    """Return the next page, or why there is none; no traceback leaves the frame, as it would keep tensors alive."""
    try:
        found = next(results, None)
    except RecognitionFailed as error:
        return RecognitionFailed(error.code, error.message)
    except MemoryError:
        return _no_memory(number)
    if found is None or found.number != number:
        said = "nothing" if found is None else f"page {found.number}"
        return RecognitionFailed(ErrorCode.ENGINE_FAILED, f"the engine gave {said} for page {number}")
    return found


def _pixels(images: Sequence[PageImage]) -> int:
    return sum(image.width_px * image.height_px for image in images)


def _no_memory(number: int) -> RecognitionFailed:
    return RecognitionFailed(ErrorCode.OUT_OF_MEMORY, f"page {number}: the host had no memory left for it")


def _is_starved(outcome: ReadPage | RecognitionFailed) -> bool:
    return isinstance(outcome, RecognitionFailed) and outcome.code is ErrorCode.OUT_OF_MEMORY


def _halves(pages: list[Prepared]) -> list[list[Prepared]]:
    middle = (len(pages) + 1) // 2
    return [half for half in (pages[:middle], pages[middle:]) if half]
