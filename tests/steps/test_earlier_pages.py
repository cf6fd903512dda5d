"""What makes two pages the same, and what is taken over from the earlier one."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID, uuid4

import numpy as np
import pytest

from pipeline.domain.languages import parse_language
from pipeline.domain.recognition import EngineIdentity, Flag, PageOutcome, PageSource
from pipeline.ports.chunks import KnownPage
from pipeline.ports.documents import PageImage, PageOrigin, TextLayer
from pipeline.steps.earlier_pages import EarlierPages, page_digest
from pipeline.steps.read_pages import Prepared
from tests.builders import CHUNK, ENGINE, JOB, block, page


def prepared(number=1, *, shade=200, dpi=200.0, shape=(40, 30, 3), origin=None, layer=None):
    image = PageImage(number=number, pixels=np.full(shape, shade, np.uint8), dpi=dpi)
    spent = timedelta(milliseconds=7)
    return Prepared(number=number, image=image, layer=layer, origin=origin or PageOrigin(), spent=spent)


@dataclass
class Known:
    """What is known elsewhere: pages by digest, and where they lie."""

    rows: dict[str, KnownPage] = field(default_factory=dict)
    store: dict[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def ask(self, digest):
        self.asked.append(digest)
        return self.rows.get(digest)

    def add(self, digest, result):
        job_id = uuid4()
        self.rows[digest] = KnownPage(job_id=job_id, number=result.number, segment_key="there")
        self.store["there"] = result
        return PageSource(job_id=job_id, number=result.number)

    def earlier(self, attempt=2):
        return EarlierPages(
            job_id=JOB,
            chunk_id=CHUNK,
            attempt=attempt,
            digest=lambda one: page_digest(one, ENGINE),
            ask=self.ask,
            fetch=lambda known: self.store.get(known.segment_key),
        )


class TestDigest:
    @pytest.mark.parametrize(
        "other",
        [
            prepared(shade=201),
            prepared(dpi=201.0),
            prepared(shape=(30, 40, 3)),
            prepared(origin=PageOrigin(scan_dpi=72)),
            prepared(origin=PageOrigin(layer_doubt=0.7)),
        ],
    )
    def test_pages_that_differ_in_what_decides_their_reading_have_others(self, other):
        assert page_digest(other, ENGINE) != page_digest(prepared(), ENGINE)

    def test_one_pixel_makes_the_difference(self):
        one = prepared()
        one.image.pixels[5, 5, 1] ^= 1
        assert page_digest(one, ENGINE) != page_digest(prepared(), ENGINE)

    def test_so_do_engine_languages_and_words(self):
        usual = page_digest(prepared(), ENGINE)
        others = {
            page_digest(prepared(), replace(ENGINE, revision="balanced")),
            page_digest(prepared(), replace(ENGINE, settings_digest="cd34")),
            page_digest(prepared(), EngineIdentity(name="other", revision="3.10", settings_digest="ab12")),
            page_digest(prepared(), ENGINE, languages=[parse_language("de")]),
            page_digest(prepared(), ENGINE, with_words=True),
        }
        assert len(others | {usual}) == 6

    def test_the_number_does_not(self):
        assert page_digest(prepared(number=9), ENGINE) == page_digest(prepared(), ENGINE)


class TestFinding:
    def test_an_earlier_page_is_taken_over_as_this_one_and_says_from_where(self):
        known = Known()
        read = page(5, block("from the archive"), flags=(Flag(name="skewed", score=0.6),))
        source = known.add(page_digest(prepared(), ENGINE), read)
        found = known.earlier(attempt=3).find(prepared(number=2))
        assert (found.number, found.text, found.flags) == (2, "from the archive", read.flags)
        assert found.outcome is PageOutcome.RECOGNISED
        provenance = found.provenance
        assert (provenance.source, provenance.engine, provenance.attempt) == (source, ENGINE, 3)
        assert (provenance.chunk_id, provenance.elapsed_ms) == (CHUNK, 7)

    def test_one_whose_segment_is_gone_is_read(self):
        known = Known()
        known.add(page_digest(prepared(), ENGINE), page(5, block("gone")))
        known.store.clear()
        assert known.earlier().find(prepared()) is None

    def test_a_page_of_the_same_chunk_is_found_without_asking(self):
        known = Known()
        earlier = known.earlier()
        assert earlier.find(prepared(1)) is None
        assert list(earlier.remembered([page(1, block("twice"))])) == [page(1, block("twice"))]
        found = earlier.find(prepared(2))
        assert (found.text, found.provenance.source) == ("twice", PageSource(job_id=JOB, number=1))
        assert len(known.asked) == 1

    def test_a_page_with_a_text_layer_is_none_of_it(self):
        known = Known()
        layer = TextLayer(width_px=30, height_px=40, dpi=200, blocks=(block("its own"),))
        earlier = known.earlier()
        assert earlier.find(prepared(layer=layer)) is None
        assert (known.asked, earlier.digest_of(page(1, block("its own")))) == ([], None)


class TestRemembering:
    def earlier(self):
        earlier = Known().earlier()
        earlier.find(prepared(1))
        return earlier

    def test_a_page_that_was_read_is_entered(self):
        assert self.earlier().digest_of(page(1, block("text"))) == page_digest(prepared(), ENGINE)

    @pytest.mark.parametrize(
        "result",
        [
            page(1),
            page(1, outcome=PageOutcome.BLANK),
            page(1, error_code="engine_failed"),
            page(1, block("text"), flags=(Flag(name="read_smaller", score=0.5),)),
            page(1, block("text"), flags=(Flag(name="truncated", score=0.5),)),
            page(2, block("never seen")),
        ],
    )
    def test_blank_failed_and_poorly_read_pages_are_not(self, result):
        assert self.earlier().digest_of(result) is None

    def test_nor_is_one_that_was_taken_over(self):
        taken = page(1, block("text"))
        source = PageSource(job_id=UUID(int=1), number=1)
        assert self.earlier().digest_of(replace(taken, provenance=replace(taken.provenance, source=source))) is None
