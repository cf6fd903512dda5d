from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.documents.opener import FileOpener
from pipeline.chaos.documents import SIMULATED_SIZES, expected_text, write
from pipeline.chaos.schedule import PAGES_PER_FAULT, Document, FaultKind, PageKind, draw
from pipeline.domain.document import Lane, PageClass
from pipeline.settings import LimitSettings


def test_a_seed_always_draws_the_same_and_another_one_something_else() -> None:
    assert draw(7, documents=12, faults=50) == draw(7, documents=12, faults=50)
    assert draw(7, documents=12, faults=50) != draw(8, documents=12, faults=50)


@given(st.integers(), st.integers(1, 60), st.integers(0, 200))
def test_every_drill_can_be_run_to_its_end(seed: int, documents: int, faults: int) -> None:
    drawn = draw(seed, documents=documents, faults=faults)
    assert (len(drawn.documents), len(drawn.faults)) == (documents, faults)
    assert len({document.name for document in drawn.documents}) == documents
    assert drawn.page_count >= PAGES_PER_FAULT * faults
    moments = [fault.after_pages for fault in drawn.faults]
    assert moments == sorted(set(moments))
    assert all(0 < moment < drawn.page_count for moment in moments)
    for document in drawn.documents:
        # A document of which nothing can be read fails as a whole, and has no result to be looked at.
        assert not document.pages or not all(page.is_poison for page in document.pages)


def test_every_kind_of_fault_strikes_as_often_as_any_other() -> None:
    counts = Counter(fault.kind for fault in draw(3, documents=5, faults=2 * len(FaultKind)).faults)
    assert counts == dict.fromkeys(FaultKind, 2)


def test_a_drill_may_be_of_some_kinds_only() -> None:
    kinds = (FaultKind.KILL_RUNNER, FaultKind.FLUSH_BROKER)
    assert Counter(fault.kind for fault in draw(3, documents=5, faults=8, kinds=kinds).faults) == dict.fromkeys(
        kinds, 4
    )


def test_many_documents_have_pages_of_every_kind_and_every_length() -> None:
    documents = draw(2, documents=100, faults=0).documents
    assert {page for document in documents for page in document.pages} == set(PageKind)
    lengths = {len(document.pages) for document in documents}
    assert {0, 1} < lengths
    assert max(lengths) > 30
    assert {document.lane for document in documents} == {Lane.CPU, Lane.GPU}


def test_numbers_that_make_no_drill_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a document and a kind"):
        draw(1, documents=0, faults=1)
    with pytest.raises(ValueError, match="fewer than 0"):
        draw(1, documents=1, faults=-1)


def test_pages_are_what_the_schedule_says_once_they_are_opened(tmp_path) -> None:
    pages = (PageKind.SCAN, PageKind.TEXT, PageKind.BLANK, PageKind.KILLS, PageKind.FAILS)
    path = tmp_path / "document.pdf"
    path.write_bytes(write(Document(name="document.pdf", pages=pages, lane=Lane.CPU)))
    scan = PageClass.SCAN
    with FileOpener(LimitSettings().for_documents()).open(path) as opened:
        classes = [opened.facts(number).page_class for number in range(1, 6)]
        assert classes == [scan, PageClass.TEXT_LAYER, PageClass.BLANK, scan, scan]
        words = [word for block in opened.text_layer(2).blocks for line in block.lines for word in line.text.split()]
        assert " ".join(words) == expected_text(PageKind.TEXT, 2)
        images = [opened.render(number, dpi=100) for number in (1, 4, 5)]
    assert [SIMULATED_SIZES.get(f"{image.width_px}x{image.height_px}") for image in images] == [None, "kill", "fail"]


def test_the_same_pages_in_two_documents_are_two_originals() -> None:
    written = {write(Document(name=name, pages=(PageKind.SCAN,), lane=Lane.CPU)) for name in ("a.pdf", "b.pdf")}
    assert len(written) == 2
