"""Flagged pages, in real rows: which are listed, in which order, and by which index."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.reviews import PostgresReview
from pipeline.domain.document import JobId
from pipeline.domain.recognition import Flag
from pipeline.ports.review import Place, ReviewFilter
from tests.adapters.test_plans import AS_IF_LARGE, reads_whole
from tests.builders import STEADY
from tests.rows import entry
from tests.statements import plans, recorded

ALL = ReviewFilter()


def flags(**scores):
    return tuple(Flag(name=name, score=score) for name, score in scores.items())


def read(rows, *flagged, **more):
    """Insert a job that is read, with a page for each tuple of flags."""
    job_id, [chunk] = rows.claimed(len(flagged), **more)
    pages = [replace(entry(number), flags=raised) for number, raised in enumerate(flagged, 1)]
    rows.chunks.record(chunk.claim, pages)
    return job_id


@pytest.fixture
def review(rows):
    return PostgresReview(rows.engine)


def found(review, limit=100, **wanted):
    return [(page.job_id, page.number, page.doubt) for page in review.pages(limit, ReviewFilter(**wanted))]


def test_pages_without_a_flag_are_not_listed(rows, review):
    read(rows, (), ())
    rows.running(3)
    assert review.pages(10, ALL) == []


def test_the_worst_come_first_then_the_newest_jobs_in_page_order(rows, review):
    first = read(rows, flags(blurred=0.6), (), flags(skewed=0.9, blurred=0.5))
    second = read(rows, flags(blurred=0.6), flags(blurred=0.6))
    assert found(review) == [(first, 3, 0.9), (second, 1, 0.6), (second, 2, 0.6), (first, 1, 0.6)]


def test_a_flag_without_a_score_counts_for_half(rows, review):
    job_id = read(rows, flags(no_text_found=None), flags(blurred=0.51), flags(regions_unread=0.1))
    assert found(review) == [(job_id, 2, 0.51), (job_id, 1, 0.5), (job_id, 3, 0.1)]


def test_a_page_comes_with_what_a_person_needs(rows, review):
    job_id = read(rows, flags(skewed=0.75), tenant="museum", label="box-17", source_name="0001.pdf")
    [page] = review.pages(10, ALL)
    assert (page.job_id, page.tenant, page.label, page.source_name) == (job_id, "museum", "box-17", "0001.pdf")
    assert (page.number, page.outcome, page.confidence) == (1, "recognised", 0.9)
    assert page.flags == flags(skewed=0.75)


def test_with_a_flag_pages_are_judged_by_its_score(rows, review):
    job_id = read(rows, flags(skewed=0.6, blurred=0.9), flags(skewed=0.8), flags(blurred=0.95))
    assert found(review, flag="skewed") == [(job_id, 2, 0.8), (job_id, 1, 0.6)]
    assert found(review, flag="skewed", min_doubt=0.7) == [(job_id, 2, 0.8)]
    assert found(review, flag="nothing") == []


def test_every_filter_leaves_out_the_others(rows, review):
    ours = read(rows, flags(blurred=0.6), tenant="museum", label="box-17")
    read(rows, flags(blurred=0.7), tenant="museum", label="box-18")
    read(rows, flags(blurred=0.8), tenant="library", label="box-17")
    now = datetime.now(UTC)
    assert found(review, tenant="museum", label="box-17") == found(review, job_id=ours) == [(ours, 1, 0.6)]
    assert [doubt for _, _, doubt in found(review, min_doubt=0.7)] == [0.8, 0.7]
    assert len(found(review, since=now - timedelta(hours=1))) == 3
    assert found(review, since=now + timedelta(hours=1)) == []


@pytest.mark.parametrize("flag", [None, "blurred"])
def test_parts_make_the_whole_list_without_a_page_twice(rows, review, flag):
    for _ in range(3):
        read(rows, *[flags(blurred=score, skewed=0.5) for score in (0.5, 0.7, 0.7, 0.1 + 0.2, 0.9)])
    whole = found(review, flag=flag)
    assert len(whole) == 15
    parts, after = [], None
    while part := review.pages(4, ReviewFilter(flag=flag, after=after)):
        parts += [(page.job_id, page.number, page.doubt) for page in part]
        after = Place.parse(str(part[-1].place))
    assert parts == whole


def test_the_flags_of_a_job_s_pages_are_counted(rows):
    job_id = read(rows, flags(skewed=0.6, blurred=0.9), (), flags(skewed=0.8), flags(no_text_found=None))
    read(rows, flags(skewed=0.6))
    assert rows.ledger.flags(job_id) == {"blurred": 1, "no_text_found": 1, "skewed": 2}
    assert rows.ledger.flags(rows.running(1)) == {}


@STEADY
@given(doubt=st.floats(0, 1), job_id=st.uuids(), number=st.integers(1, 2**31 - 1))
def test_a_place_is_read_as_it_was_written(doubt, job_id, number):
    place = Place(doubt=doubt, job_id=JobId(job_id), number=number)
    assert Place.parse(str(place)) == place


@pytest.mark.parametrize(
    "text",
    ["", "1", "x_y_z", "nan_01900000-0000-7000-8000-00000000dead_1", "0.5_01900000-0000-7000-8000-00000000dead_0"],
)
def test_what_is_no_place_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        Place.parse(text)


def test_the_list_takes_its_order_from_the_index(rows, review):
    read(rows, flags(blurred=0.6), flags(blurred=0.7))
    with recorded(rows.engine) as statements:
        [page, _] = review.pages(10, ALL)
        review.pages(10, ReviewFilter(after=page.place))
    for _, plan in plans(rows.engine, statements, under=AS_IF_LARGE):
        assert "page_flagged" in plan
        assert "Sort" not in plan
        assert reads_whole(plan) == []
