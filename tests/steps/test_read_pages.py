"""How a page gets its outcome, alone and among others, over an in-memory document and engine."""

import weakref
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import pytest

from pipeline.adapters.smaller_pages import smaller
from pipeline.domain.batches import ONE_PAGE, BatchBound
from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.page_doubts import PageLook
from pipeline.domain.recognition import Block, BlockKind, Flag, Line, PageOutcome, Word
from pipeline.ports.chunks import PageTask
from pipeline.ports.documents import PageImage, PageOrigin, TextLayer
from pipeline.ports.engines import ReadPage, Reads
from pipeline.steps.read_chunk import ChunkReader
from pipeline.steps.read_pages import TEXT_LAYER_READER, PageReader, grouped
from tests.builders import CHUNK, ENGINE, page

WIDTH, HEIGHT = 1000, 1400
UNSEEN = PageLook()


def line(text, top, *, left=100.0, confidence=0.9):
    box = ((left, top), (left + 500, top), (left + 500, top + 30), (left, top + 30))
    return Line(text=text, polygon=box, confidence=confidence)


@dataclass
class Document:
    """A document in memory: a text layer for some pages, ink for all but the blank ones."""

    layers: dict[int, list[Line]] = field(default_factory=dict)
    broken: frozenset[int] = frozenset()
    blank: frozenset[int] = frozenset()
    rendered_at: list[tuple[int, float | None]] = field(default_factory=list)
    size: tuple[int, int] = (HEIGHT, WIDTH)
    origins: dict[int, PageOrigin] = field(default_factory=dict)

    def facts(self, number):
        return PageFacts(
            number=number,
            page_class=PageClass.SCAN,
            width_pt=360,
            height_pt=504,
            dpi=200,
            error_code="page_damaged" if number in self.broken else None,
        )

    def render(self, number, *, dpi=None):
        self.rendered_at.append((number, dpi))
        if number in self.broken:
            raise RecognitionFailed(ErrorCode.PAGE_DAMAGED, f"page {number} can't be drawn")
        value = 255 if number in self.blank else 0
        return PageImage(number=number, pixels=np.full((*self.size, 3), value, np.uint8), dpi=dpi or 200)

    def origin(self, number):
        return self.origins.get(number, PageOrigin())

    def text_layer(self, number):
        lines = self.layers.get(number, [])
        blocks = (Block(kind=BlockKind.TEXT, lines=tuple(lines)),) if lines else ()
        return TextLayer(width_px=WIDTH, height_px=HEIGHT, dpi=200, blocks=blocks)


@dataclass
class Engine:
    """Finds on each page what it was given."""

    found: dict[int, list[Line]] = field(default_factory=dict)
    identity = ENGINE
    reads = Reads.PAGE
    batch = ONE_PAGE
    seen: list[int] = field(default_factory=list)

    def warm_up(self):
        pass

    def read(self, pages):
        for image in pages:
            self.seen.append(image.number)
            yield ReadPage(number=image.number, lines=tuple(self.found.get(image.number, [])), flags=(), angle_deg=90.0)


@dataclass
class Batcher:
    """Reads pages together: no more than there is memory for, and not the bad ones."""

    memory: int = 99
    bad: frozenset[int] = frozenset()
    identity = ENGINE
    reads = Reads.BATCH
    batch: BatchBound = field(default_factory=lambda: BatchBound(pages=4, pixels=4 * WIDTH * HEIGHT))
    batches: list[list[int]] = field(default_factory=list)

    def warm_up(self):
        pass

    def read(self, pages):
        together = [page.number for page in pages]
        self.batches.append(together)
        starved = len(together) > self.memory
        return map(self.outcome, together, [starved] * len(together))

    def outcome(self, number, starved):
        if starved:
            raise RecognitionFailed(ErrorCode.OUT_OF_MEMORY, f"page {number}: no memory")
        if number in self.bad:
            raise RecognitionFailed(ErrorCode.ENGINE_FAILED, f"page {number}: can't be read")
        return ReadPage(number=number, lines=(line(f"page {number}", 100),))


@dataclass
class Scarce(Document):
    """A document on a host that has room for so many pages at the same time."""

    room: int = 1
    rendered: list = field(default_factory=list)

    def render(self, number, *, dpi=None):
        self.rendered = [pixels for pixels in self.rendered if pixels() is not None]
        if len(self.rendered) >= self.room:
            raise MemoryError
        image = super().render(number, dpi=dpi)
        self.rendered.append(weakref.ref(image.pixels))
        return image


class Reader:
    """Reads a document's pages with an engine, and notes what it says meanwhile."""

    def __init__(self, document, engine=None, *, stop_at=None, look=UNSEEN, **more):
        engine = engine or Engine()
        self.begun = []
        self.lowered = []
        pages = PageReader(
            document=document,
            engine=engine.identity,
            is_blank=lambda image: bool(image.pixels.min() == 255),
            look=lambda image, lines: look,
            chunk_id=CHUNK,
            attempt=3,
            **more,
        )
        self.chunk = ChunkReader(
            pages=pages,
            engine=engine,
            bound=engine.batch,
            smaller=smaller,
            stopped=lambda: stop_at in self.begun,
            begun=lambda numbers: self.begun.append(list(numbers)),
            lowered=self.lowered.append,
        )

    def read(self, task):
        [result] = self.chunk.read([task])
        return result

    def scans(self, count):
        """Read so many scans; return the outcome of each by its number, in the order in which they came."""
        results = list(self.chunk.read([task(number, PageClass.SCAN) for number in range(1, count + 1)]))
        assert len({result.number for result in results}) == len(results)
        return {result.number: result.outcome for result in results}


reader = Reader


def task(number, page_class):
    return PageTask(number=number, page_class=page_class)


def test_a_good_text_layer_is_taken_and_no_engine_is_asked():
    engine = Engine()
    result = reader(Document(layers={1: [line("typed", 100, confidence=None)]}), engine).read(
        task(1, PageClass.TEXT_LAYER)
    )
    assert (result.outcome, result.text, result.confidence) == (PageOutcome.TEXT_LAYER, "typed", None)
    assert result.provenance.engine == TEXT_LAYER_READER
    assert engine.seen == []


def test_a_scan_is_recognised_and_says_by_what():
    result = reader(Document(), Engine({1: [line("read", 100)]})).read(task(1, PageClass.SCAN))
    assert (result.outcome, result.text, result.angle_deg) == (PageOutcome.RECOGNISED, "read", 90.0)
    assert (result.width_px, result.height_px, result.dpi) == (WIDTH, HEIGHT, 200)
    assert (result.provenance.engine, result.provenance.chunk_id, result.provenance.attempt) == (ENGINE, CHUNK, 3)


def test_a_blank_scan_never_meets_the_engine():
    engine = Engine({1: [line("invented", 100)]})
    result = reader(Document(blank=frozenset({1})), engine).read(task(1, PageClass.SCAN))
    assert (result.outcome, result.blocks, engine.seen) == (PageOutcome.BLANK, (), [])


def test_a_page_that_draws_nothing_is_blank_without_being_rendered():
    document = Document()
    result = reader(document).read(task(1, PageClass.BLANK))
    assert (result.outcome, document.rendered_at) == (PageOutcome.BLANK, [])
    assert (result.width_px, result.height_px) == (WIDTH, HEIGHT)


def test_a_page_of_text_and_picture_gets_both_and_nothing_twice():
    typed = [line("typed above", 100, confidence=None)]
    found = [line("TYPED AB0VE", 102), line("in the picture", 700)]
    document = Document(layers={1: typed})
    result = reader(document, Engine({1: found}), dpi=300).read(task(1, PageClass.MIXED))
    assert [each.text for block in result.blocks for each in block.lines] == ["typed above", "in the picture"]
    assert result.outcome is PageOutcome.RECOGNISED
    # At the resolution of its text layer, not at the one asked for, or the lines would not meet.
    assert document.rendered_at == [(1, 200)]


def test_a_text_layer_that_turns_out_empty_is_recognised():
    result = reader(Document(), Engine({1: [line("read", 100)]})).read(task(1, PageClass.TEXT_LAYER))
    assert (result.outcome, result.text) == (PageOutcome.RECOGNISED, "read")


def test_a_page_with_ink_and_no_text_says_so():
    result = reader(Document()).read(task(1, PageClass.SCAN))
    assert (result.outcome, result.text, result.flags) == (
        PageOutcome.RECOGNISED,
        "",
        (Flag(name="no_text_found"),),
    )


def test_words_are_kept_where_the_job_asks_for_them():
    read = line("read", 100)
    found = replace(read, words=(Word(text="read", polygon=read.polygon, confidence=0.9),))
    for asked in (True, False):
        result = reader(Document(), Engine({1: [found]}), with_words=asked).read(task(1, PageClass.SCAN))
        [kept] = [each for block in result.blocks for each in block.lines]
        assert kept == (found if asked else read)


SENTENCE = "Permit me to introduce you to the facility of facsimile transmission"


def sentence(*, confidence=0.99):
    box = ((100.0, 100.0), (900.0, 100.0), (900.0, 130.0), (100.0, 130.0))
    return Line(text=SENTENCE, polygon=box, confidence=confidence)


def test_a_page_that_was_read_with_doubts_says_so():
    found = [sentence(confidence=0.8)]
    look = PageLook(edge_px=12.0, shown_through=0.0)
    result = reader(Document(), Engine({1: found}), look=look).read(task(1, PageClass.SCAN))
    assert [flag.name for flag in result.flags] == ["low_confidence", "blurred"]


def test_a_text_layer_that_was_too_bad_to_be_used_is_a_doubt():
    document = Document(origins={1: PageOrigin(layer_doubt=0.8)})
    result = reader(document, Engine({1: [sentence()]})).read(task(1, PageClass.SCAN))
    assert result.flags == (Flag(name="text_layer_garbled", score=0.8),)


def test_a_bad_text_layer_that_is_kept_all_the_same_is_a_doubt():
    document = Document(layers={1: [sentence()]}, origins={1: PageOrigin(layer_doubt=0.8)})
    result = reader(document).read(task(1, PageClass.TEXT_LAYER))
    assert (result.outcome, result.text) == (PageOutcome.TEXT_LAYER, SENTENCE)
    assert result.flags == (Flag(name="text_layer_garbled", score=0.8),)


def test_a_scan_that_was_enlarged_is_judged_as_it_was_scanned():
    document = Document(origins={1: PageOrigin(scan_dpi=50.0)})
    result = reader(document, Engine({1: [sentence()]})).read(task(1, PageClass.SCAN))
    assert [flag.name for flag in result.flags] == ["low_resolution"]


def test_a_slanted_page_was_turned_by_what_the_engine_says_and_its_slant():
    box = ((100.0, 100.0), (900.0, 141.9), (898.4, 171.9), (98.4, 130.0))
    result = reader(Document(), Engine({1: [Line(text=SENTENCE, polygon=box, confidence=0.99)]})).read(
        task(1, PageClass.SCAN)
    )
    assert [flag.name for flag in result.flags] == ["skewed"]
    assert result.angle_deg == pytest.approx(90 - 3, abs=0.05)


@pytest.mark.parametrize("page_class", [PageClass.SCAN, PageClass.UNREADABLE])
def test_a_page_that_can_not_be_drawn_fails_with_its_cause(page_class):
    result = reader(Document(broken=frozenset({1}))).read(task(1, page_class))
    assert (result.outcome, result.error_code) == (PageOutcome.FAILED, "page_damaged")
    assert "page 1" in result.error_detail


def test_the_resolution_asked_for_is_used():
    document = Document()
    reader(document, dpi=300).read(task(1, PageClass.SCAN))
    assert document.rendered_at == [(1, 300)]


def test_a_page_rendered_ahead_is_not_rendered_again():
    document = Document()
    image = Document().render(1)
    reader(document, rendered=lambda number: image if number == 1 else None).read(task(1, PageClass.SCAN))
    assert document.rendered_at == []


RECOGNISED, FAILED, BLANK = PageOutcome.RECOGNISED, PageOutcome.FAILED, PageOutcome.BLANK


class TestBatches:
    def test_as_many_pages_go_together_as_the_engine_takes(self):
        engine = Batcher()
        assert Reader(Document(), engine).scans(10) == dict.fromkeys(range(1, 11), RECOGNISED)
        assert engine.batches == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]

    def test_a_batch_is_bounded_by_its_pixels(self):
        engine = Batcher()
        engine.batch = BatchBound(pages=4, pixels=2 * WIDTH * HEIGHT)
        Reader(Document(), engine).scans(5)
        assert engine.batches == [[1, 2], [3, 4], [5]]

    def test_a_page_larger_than_the_bound_goes_alone(self):
        engine = Batcher()
        engine.batch = BatchBound(pages=4, pixels=1)
        assert Reader(Document(), engine).scans(2) == {1: RECOGNISED, 2: RECOGNISED}
        assert engine.batches == [[1], [2]]

    def test_pages_that_need_no_engine_do_not_wait_for_a_batch(self):
        engine = Batcher()
        outcomes = Reader(Document(blank=frozenset({2}), broken=frozenset({5})), engine).scans(6)
        assert list(outcomes.items())[:3] == [(2, BLANK), (5, FAILED), (1, RECOGNISED)]
        assert engine.batches == [[1, 3, 4, 6]]

    def test_a_bad_page_costs_only_itself(self):
        engine = Batcher(bad=frozenset({3}))
        outcomes = Reader(Document(), engine).scans(4)
        assert outcomes == {1: RECOGNISED, 2: RECOGNISED, 4: RECOGNISED, 3: FAILED}
        assert engine.batches == [[1, 2, 3, 4], [3]]

    def test_it_says_which_pages_are_in_work(self):
        made = Reader(Document(), Batcher())
        made.scans(5)
        assert made.begun == [[1], [2], [3], [4], [1, 2, 3, 4], [5], [5]]

    def test_asked_to_stop_it_begins_no_further_batch(self):
        engine = Batcher()
        made = Reader(Document(), engine, stop_at=[1, 2, 3, 4])
        assert list(made.scans(10)) == [1, 2, 3, 4]
        assert Reader(Document(), engine, stop_at=[6]).scans(10).keys() == {1, 2, 3, 4}

    def test_an_engine_that_gives_another_page_or_none_is_not_believed(self):
        class Muddled(Batcher):
            def read(self, pages):
                found = list(super().read(pages))
                return iter(found if len(found) == 1 else [found[1], found[0], *found[2:-1]])

        engine = Muddled()
        assert Reader(Document(), engine).scans(4) == dict.fromkeys(range(1, 5), RECOGNISED)
        assert engine.batches == [[1, 2, 3, 4], [1, 2], [1], [2], [4]]


class TestOutOfMemory:
    @pytest.mark.parametrize("at_once", [True, False])
    def test_so_does_a_host_without_memory(self, at_once):
        class Host(Batcher):
            def read(self, pages):
                found = super().read(pages)
                if at_once:
                    return self.checked(found)
                return (self.checked([one])[0] for one in found)

            def checked(self, found):
                if len(self.batches[-1]) > 2:
                    raise MemoryError
                return found

        engine = Host()
        assert Reader(Document(), engine).scans(4) == dict.fromkeys(range(1, 5), RECOGNISED)
        assert engine.batches == [[1, 2, 3, 4], [1, 2], [3, 4]]

    def test_a_page_that_does_not_fit_alone_is_shown_smaller_and_its_lines_lie_where_they_should(self):
        class Narrow(Batcher):
            def outcome(self, number, starved):
                return replace(super().outcome(number, starved), lines=(line("small", 100, left=50),))

            def read(self, pages):
                self.memory = 1 if pages[0].pixels.size / 3 < 2_000_000 else 0
                return super().read(pages)

        engine = Narrow(batch=BatchBound(pages=2, pixels=10_000_000))
        made = Reader(Document(size=(2000, 1600)), engine)
        results = list(made.chunk.read([task(1, PageClass.SCAN), task(2, PageClass.SCAN)]))
        assert [bound.page_pixels for bound in made.lowered] == [None, 1_600_000]
        assert engine.batches == [[1, 2], [1], [1], [2]]
        for result in results:
            assert [flag.name for flag in result.flags] == ["read_smaller"]
            assert result.flags[0].score == pytest.approx(0.5, abs=1e-2)
            assert result.blocks[0].lines[0].polygon[0] == pytest.approx((50 * 2**0.5, 100 * 2**0.5), rel=1e-2)
            assert (result.width_px, result.height_px) == (1600, 2000)

    def test_blocks_that_an_engine_knows_itself_stay_as_they_are_and_lie_where_they_should(self):
        class WholePages(Batcher):
            def outcome(self, number, starved):
                heading = Block(kind=BlockKind.HEADING, lines=(line("its own", 100, left=50),), level=3)
                return replace(super().outcome(number, starved), lines=(), blocks=(heading,))

            def read(self, pages):
                self.memory = 1 if pages[0].pixels.size / 3 < 2_000_000 else 0
                return super().read(pages)

        document = Document(size=(2000, 1600), layers={1: [line("of the file", 100)]})
        made = Reader(document, WholePages(batch=BatchBound(pages=1, pixels=10_000_000)))
        [result] = made.chunk.read([task(1, PageClass.MIXED)])
        [block] = result.blocks
        assert (block.kind, block.level, block.text) == (BlockKind.HEADING, 3, "its own")
        assert block.lines[0].polygon[0] == pytest.approx((50 * 2**0.5, 100 * 2**0.5), rel=1e-2)

    def test_the_batch_is_halved_until_it_fits_and_stays_so(self):
        engine = Batcher(memory=1)
        made = Reader(Document(), engine)
        assert made.scans(6) == dict.fromkeys(range(1, 7), RECOGNISED)
        assert engine.batches == [[1, 2, 3, 4], [1, 2], [1], [2], [3], [4], [5], [6]]
        assert [bound.pages for bound in made.lowered] == [2, 1]

    def test_the_first_size_that_fits_is_kept(self):
        engine = Batcher(memory=2)
        Reader(Document(), engine).scans(6)
        assert engine.batches == [[1, 2, 3, 4], [1, 2], [3, 4], [5, 6]]

    def test_a_page_that_does_not_fit_alone_ends_the_attempt_and_is_the_one_in_work(self):
        made = Reader(Document(), Batcher(memory=0))
        with pytest.raises(Transient, match="page 1: no memory") as caught:
            made.scans(4)
        assert (caught.value.code, made.begun[-1]) == (ErrorCode.OUT_OF_MEMORY, [1])

    def test_pages_for_which_there_is_no_memory_to_render_wait_for_those_before_them(self):
        made = Reader(Scarce(room=3), engine := Batcher())
        assert made.scans(6) == dict.fromkeys(range(1, 7), RECOGNISED)
        assert engine.batches == [[1, 2, 3], [4, 5, 6]]
        assert [bound.pages for bound in made.lowered] == [3]

    def test_a_page_that_can_not_be_rendered_for_want_of_memory_ends_the_attempt_and_is_the_one_in_work(self):
        made = Reader(Scarce(room=0), Batcher())
        with pytest.raises(Transient, match="page 1: the host has no memory to render it") as caught:
            made.scans(4)
        assert (caught.value.code, made.begun[-1]) == (ErrorCode.OUT_OF_MEMORY, [1])

    def test_while_a_batch_is_read_again_nothing_holds_on_to_the_failure(self):
        kept = []

        class Holding(Batcher):
            def read(self, pages):
                assert [tensors() for tensors in kept] == [None] * len(kept)
                tensors = np.zeros(10)
                kept.append(weakref.ref(tensors))
                return map(self.outcome_of, [page.number for page in pages], [tensors] * len(pages))

            def outcome_of(self, number, tensors):
                return self.outcome(number, len(tensors) > 0)

        with pytest.raises(Transient):
            Reader(Document(), Holding()).scans(4)
        assert len(kept) == 3


def test_finished_pages_are_grouped_by_count_and_by_waiting_time():
    now = iter([0.0, 0.0, 30.0, 31.0, 31.0, 32.0])
    results = [page(number) for number in range(1, 6)]
    groups = grouped(results, pages=3, after=timedelta(seconds=20), clock=lambda: next(now))
    assert [[result.number for result in group] for group in groups] == [[1, 2], [3, 4, 5]]


def test_no_page_is_held_back_at_the_end():
    groups = list(grouped([page(1), page(2), page(3)], pages=2, after=timedelta(minutes=1)))
    assert [[result.number for result in group] for group in groups] == [[1, 2], [3]]
    assert list(grouped([], pages=2, after=timedelta(minutes=1))) == []
