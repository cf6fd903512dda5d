from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.document import JobId, PageRange, chunk_id
from tests.builders import JOB, STEADY, facts

OTHER_JOB = UUID("01900000-0000-7000-8000-000000000002")


@STEADY
@given(st.integers(1, 10_000), st.integers(0, 500))
def test_a_page_range_holds_its_pages_and_both_its_ends(first, more):
    pages = PageRange(first=first, last=first + more)
    assert len(pages) == len(list(pages)) == more + 1
    assert all(number in pages for number in pages)
    assert first - 1 not in pages
    assert pages.last + 1 not in pages


@pytest.mark.parametrize(("first", "last"), [(0, 3), (-1, -1), (4, 3)])
def test_an_empty_page_range_can_not_be_made(first, last):
    with pytest.raises(ValueError, match="no page range"):
        PageRange(first=first, last=last)


def test_page_ranges_are_read_by_people_and_sorted_by_their_first_page():
    later, earlier = PageRange(first=10, last=12), PageRange(first=2, last=30)
    assert str(later) == "10-12"
    assert sorted([later, earlier]) == [earlier, later]


def test_a_chunk_has_the_same_id_each_time_it_is_planned():
    pages = PageRange(first=1, last=6)
    assert chunk_id(JobId(JOB), 0, pages) == chunk_id(JobId(JOB), 0, PageRange(first=1, last=6))


def test_chunks_that_differ_in_anything_have_different_ids():
    pages, longer = PageRange(first=1, last=6), PageRange(first=1, last=7)
    ids = {
        chunk_id(JobId(JOB), 0, pages),
        chunk_id(JobId(JOB), 1, pages),
        chunk_id(JobId(JOB), 0, longer),
        chunk_id(JobId(OTHER_JOB), 0, pages),
    }
    assert len(ids) == 4


def test_an_a4_page_at_200_dpi_has_3_87_megapixels():
    assert facts(1)[0].megapixels == pytest.approx(3.87, abs=0.01)
