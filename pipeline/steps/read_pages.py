"""Read pages: how one page gets its outcome, before and after the engine has seen it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import assert_never
from uuid import UUID

from pipeline.domain.document import PageClass
from pipeline.domain.errors import ErrorCode, RecognitionFailed
from pipeline.domain.languages import Language
from pipeline.domain.page_doubts import PageLook, page_doubts, skew, text_doubts
from pipeline.domain.reading_order import order
from pipeline.domain.recognition import (
    Block,
    EngineIdentity,
    Flag,
    Line,
    PageOutcome,
    PageResult,
    Polygon,
    Provenance,
)
from pipeline.ports.chunks import PageTask
from pipeline.ports.documents import OpenDocument, PageImage, PageOrigin, TextLayer
from pipeline.ports.engines import ReadPage

TEXT_LAYER_READER = EngineIdentity(name="text-layer", revision="1", settings_digest="")
"""What made a page whose text was in the file."""
RenderedPage = Callable[[int], PageImage | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A page that waits for the engine."""

    number: int
    image: PageImage
    layer: TextLayer | None
    """Its own text, that what the engine finds is added to."""
    origin: PageOrigin
    spent: timedelta

    @property
    def pixels(self) -> int:
        """Return its size."""
        return self.image.width_px * self.image.height_px


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReader:
    """Reads single pages of one document for one attempt at a chunk."""

    document: OpenDocument
    engine: EngineIdentity
    is_blank: Callable[[PageImage], bool]
    look: Callable[[PageImage, Sequence[Line]], PageLook]
    chunk_id: UUID
    attempt: int
    dpi: float | None = None
    """What the job asked scans to be rendered at; None leaves it to the page."""
    languages: tuple[Language, ...] = ()
    """What the job says that it is written in."""
    with_words: bool = False
    """Whether words are kept where the engine gives them."""
    rendered: RenderedPage = field(default=lambda _: None)
    """Gives a page that was rendered ahead, if it was."""
    earlier: Callable[[Prepared], PageResult | None] = field(default=lambda _: None)
    """Gives the result of a page that was read before, if it was."""

    def prepare(self, task: PageTask) -> PageResult | Prepared:
        """Return the page's result, if it needs no engine or can't be rendered; else what the engine is to see."""
        started = time.monotonic()
        try:
            return self._prepare(task, started)
        except RecognitionFailed as error:
            failure = error
        return self.failed(task.number, failure, _since(started))

    def recognised(
        self, page: Prepared, found: ReadPage, spent: timedelta, *, shown: PageImage | None = None
    ) -> PageResult:
        """Return the result of a page that the engine has read in that time.

        Args: shown is what it was shown, if that was not the page itself but smaller.
        """
        image, flags = page.image, found.flags
        if shown is not None and shown is not image:
            across, down = image.width_px / shown.width_px, image.height_px / shown.height_px
            found = _enlarged(found, across, down)
            flags = (*flags, Flag(name="read_smaller", score=1 / (across * down)))
        lines = [line if self.with_words else replace(line, words=()) for line in found.lines]
        if page.layer and not found.blocks:
            own = [line for block in page.layer.blocks for line in block.lines]
            lines = own + [line for line in lines if not _lies_on(line, own)]
        # An engine that writes down the whole page has its text layer among what it saw.
        blocks = found.blocks or order(lines, image.width_px, image.height_px)
        return self._result(
            image,
            PageOutcome.RECOGNISED,
            page.spent + spent,
            blocks=blocks,
            flags=_each_once((*flags, *self._doubts(page, lines, blocks, found.sure))),
            angle_deg=found.angle_deg - skew(lines),
        )

    def _doubts(self, page: Prepared, lines: Sequence[Line], blocks: Sequence[Block], sure: float) -> Iterator[Flag]:
        """Yield what speaks against a page that was read from its picture."""
        if page.origin.layer_doubt is not None:
            yield Flag(name="text_layer_garbled", score=page.origin.layer_doubt)
        if lines:
            enlarged = max(1.0, page.image.dpi / (page.origin.scan_dpi or page.image.dpi))
            look = self.look(page.image, lines)
            yield from page_doubts(lines, look, sure=sure, enlarged=enlarged, languages=self.languages)
        elif blocks:
            # Of an engine that writes down the whole page: its lines do not lie where they are read.
            yield from text_doubts([line.text for block in blocks for line in block.lines], self.languages)
        else:
            yield Flag(name="no_text_found")

    def failed(self, number: int, failure: RecognitionFailed, spent: timedelta) -> PageResult:
        """Return the result of a page that can't be read."""
        return PageResult(
            number=number,
            outcome=PageOutcome.FAILED,
            width_px=0,
            height_px=0,
            dpi=0,
            provenance=self._provenance(self.engine, spent),
            error_code=failure.code,
            error_detail=failure.message,
        )

    def _prepare(self, task: PageTask, started: float) -> PageResult | Prepared:
        match task.page_class:
            case PageClass.UNREADABLE:
                code = self.document.facts(task.number).error_code or ErrorCode.PAGE_DAMAGED
                raise RecognitionFailed(ErrorCode(code), f"page {task.number} can't be loaded")
            case PageClass.BLANK:
                facts = self.document.facts(task.number)
                return PageResult(
                    number=task.number,
                    outcome=PageOutcome.BLANK,
                    width_px=max(1, round(facts.width_pt * facts.dpi / 72)),
                    height_px=max(1, round(facts.height_pt * facts.dpi / 72)),
                    dpi=facts.dpi,
                    provenance=self._provenance(TEXT_LAYER_READER, _since(started)),
                )
            case PageClass.TEXT_LAYER:
                layer = self.document.text_layer(task.number)
                return self._from_text_layer(task, layer, started) if layer.blocks else self._rendered(task, started)
            case PageClass.MIXED:
                return self._rendered(task, started, self.document.text_layer(task.number))
            case PageClass.SCAN:
                return self._rendered(task, started)
            case _:
                assert_never(task.page_class)

    def _from_text_layer(self, task: PageTask, layer: TextLayer, started: float) -> PageResult:
        doubt = self.document.origin(task.number).layer_doubt
        return PageResult(
            number=task.number,
            outcome=PageOutcome.TEXT_LAYER,
            width_px=layer.width_px,
            height_px=layer.height_px,
            dpi=layer.dpi,
            provenance=self._provenance(TEXT_LAYER_READER, _since(started)),
            blocks=layer.blocks,
            flags=() if doubt is None else (Flag(name="text_layer_garbled", score=doubt),),
        )

    def _rendered(self, task: PageTask, started: float, layer: TextLayer | None = None) -> PageResult | Prepared:
        # A page with a text layer is rendered at the resolution that its lines are placed in.
        dpi = layer.dpi if layer else self.dpi
        image = self.rendered(task.number) or self.document.render(task.number, dpi=dpi)
        if layer is None and self.is_blank(image):
            return self._result(image, PageOutcome.BLANK, _since(started))
        origin = self.document.origin(task.number)
        prepared = Prepared(number=task.number, image=image, layer=layer, origin=origin, spent=_since(started))
        return self.earlier(prepared) or prepared

    def _result(
        self,
        image: PageImage,
        outcome: PageOutcome,
        spent: timedelta,
        *,
        blocks: tuple[Block, ...] = (),
        flags: tuple[Flag, ...] = (),
        angle_deg: float = 0.0,
    ) -> PageResult:
        return PageResult(
            number=image.number,
            outcome=outcome,
            width_px=image.width_px,
            height_px=image.height_px,
            dpi=image.dpi,
            provenance=self._provenance(self.engine, spent),
            angle_deg=angle_deg,
            blocks=blocks,
            flags=flags,
        )

    def _provenance(self, engine: EngineIdentity, spent: timedelta) -> Provenance:
        elapsed_ms = round(spent.total_seconds() * 1000)
        return Provenance(engine=engine, chunk_id=self.chunk_id, attempt=self.attempt, elapsed_ms=elapsed_ms)


def _since(started: float) -> timedelta:
    return timedelta(seconds=time.monotonic() - started)


def grouped(
    results: Iterable[PageResult], *, pages: int, after: timedelta, clock: Callable[[], float] = time.monotonic
) -> Iterator[list[PageResult]]:
    """Yield finished pages in groups: when there are that many, or when the first has waited that long."""
    group: list[PageResult] = []
    opened = 0.0
    for result in results:
        if not group:
            opened = clock()
        group.append(result)
        if len(group) >= pages or clock() - opened >= after.total_seconds():
            yield group
            group = []
    if group:
        yield group


def _enlarged(found: ReadPage, across: float, down: float) -> ReadPage:
    """Return what was found on a smaller picture where it lies on the page."""

    def stretched(polygon: Polygon) -> Polygon:
        return tuple((x * across, y * down) for x, y in polygon)

    def on_page(line: Line) -> Line:
        words = tuple(replace(word, polygon=stretched(word.polygon)) for word in line.words)
        return replace(line, polygon=stretched(line.polygon), words=words)

    return replace(
        found,
        lines=tuple(map(on_page, found.lines)),
        blocks=tuple(replace(block, lines=tuple(map(on_page, block.lines))) for block in found.blocks),
    )


def _each_once(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """Return the flags without those of a name that came before: an engine knows best what it doubts itself."""
    first: dict[str, Flag] = {}
    for flag in flags:
        first.setdefault(flag.name, flag)
    return tuple(first.values())


def _lies_on(line: Line, others: Sequence[Line]) -> bool:
    """Whether the middle of a line falls into another one's rectangle: the same words, read twice."""
    x = sum(point[0] for point in line.polygon) / len(line.polygon)
    y = sum(point[1] for point in line.polygon) / len(line.polygon)
    return any(
        min(p[0] for p in other.polygon) <= x <= max(p[0] for p in other.polygon)
        and min(p[1] for p in other.polygon) <= y <= max(p[1] for p in other.polygon)
        for other in others
    )
