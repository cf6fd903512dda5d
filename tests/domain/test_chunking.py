from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.chunking import (
    DEVICES_TO_COME,
    SMALLEST_CHUNK,
    choose_lane,
    page_cost_ms,
    pages_to_recognise,
    plan_chunks,
)
from pipeline.domain.document import Lane, PageClass, PageFacts
from pipeline.domain.options import LanePolicy
from tests.builders import STEADY, facts

TARGET = timedelta(seconds=40)


def plan(pages, *, target=TARGET, max_pages=50, page_ms=4_000, devices=2, lane=Lane.CPU):
    return plan_chunks(pages, lane=lane, target=target, max_pages=max_pages, page_ms=page_ms, devices=devices)


def lengths(chunks):
    return [len(chunk.pages) for chunk in chunks]


@st.composite
def documents(draw):
    """Documents, whole or with pages left out."""
    classes = draw(st.lists(st.sampled_from(PageClass), min_size=1, max_size=300))
    sizes = st.floats(0, 2_000)
    gaps = draw(st.sets(st.integers(2, max(2, len(classes)))))
    return [
        PageFacts(
            number=number, page_class=page_class, width_pt=draw(sizes), height_pt=draw(sizes), dpi=draw(st.just(200.0))
        )
        for number, page_class in enumerate(classes, start=1)
        if number not in gaps
    ]


plans = st.fixed_dictionaries(
    {
        "target": st.integers(1, 90).map(lambda seconds: timedelta(seconds=seconds)),
        "max_pages": st.integers(1, 80),
        "page_ms": st.integers(1, 20_000),
        "devices": st.integers(0, 16),
    }
)


@STEADY
@given(documents(), plans)
def test_the_chunks_joined_are_the_document_each_page_once_and_in_order(pages, bounds):
    chunks = plan(pages, **bounds)
    assert [number for chunk in chunks for number in chunk.pages] == [page.number for page in pages]
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))


@STEADY
@given(documents(), plans)
def test_a_chunk_takes_at_most_the_target_time_and_one_page_more(pages, bounds):
    costs = {page.number: page_cost_ms(page, page_ms=bounds["page_ms"]) for page in pages}
    for chunk in plan(pages, **bounds):
        assert len(chunk.pages) <= bounds["max_pages"]
        assert chunk.cost_ms <= bounds["target"] / timedelta(milliseconds=1) + max(costs.values())
        assert chunk.cost_ms == sum(costs[number] for number in chunk.pages)


@STEADY
@given(documents(), plans)
def test_planning_twice_gives_the_same_chunks(pages, bounds):
    assert plan(pages, **bounds) == plan(list(pages), **bounds)


@STEADY
@given(st.integers(1, 400), plans)
def test_pages_of_equal_cost_give_chunks_that_differ_by_few_pages(count, bounds):
    sizes = lengths(plan(facts(count), **bounds | {"max_pages": 1000}))
    assert max(sizes) - min(sizes) <= 1


@STEADY
@given(st.integers(1, 400), st.integers(1, 8))
def test_devices_are_never_kept_busy_with_crumbs(count, devices):
    smallest = min(plan(facts(count), devices=devices, max_pages=1000), key=lambda chunk: chunk.cost_ms)
    one_page = page_cost_ms(facts(1)[0], page_ms=4_000)
    is_whole = len(smallest.pages) == count
    assert is_whole or smallest.cost_ms + one_page >= SMALLEST_CHUNK / timedelta(milliseconds=1)


def test_twelve_scanned_pages_keep_two_slots_equally_busy():
    assert lengths(plan(facts(12))) == [6, 6]


def test_a_long_document_ends_on_all_devices_together():
    chunks = plan(facts(50), devices=3)
    assert len(chunks) % 3 == 0
    assert set(lengths(chunks)) == {8, 9}


def test_a_short_document_stays_whole_however_many_devices_wait():
    assert lengths(plan(facts(3), devices=16)) == [3]


def test_pages_that_cost_nothing_are_bounded_in_number_alone():
    assert lengths(plan(facts(120, PageClass.TEXT_LAYER))) == [40, 40, 40]


def test_cheap_pages_do_not_hide_the_cost_of_scans_behind_them():
    pages = facts(500, PageClass.TEXT_LAYER) + facts(10, first=501)
    slowest = max(chunk.cost_ms for chunk in plan(pages))
    assert slowest < 0.6 * sum(chunk.cost_ms for chunk in plan(pages))


def test_a_page_dearer_than_the_target_is_a_chunk_of_its_own():
    giant = PageFacts(number=2, page_class=PageClass.SCAN, width_pt=2160, height_pt=2160, dpi=200)
    chunks = plan([*facts(1), giant, *facts(1, first=3)], target=timedelta(seconds=12), devices=1)
    assert [str(chunk.pages) for chunk in chunks] == ["1-1", "2-2", "3-3"]


def test_the_chunks_carry_the_lane_they_were_planned_for():
    assert {chunk.lane for chunk in plan(facts(30), lane=Lane.GPU)} == {Lane.GPU}


def test_before_any_device_is_live_a_long_document_is_planned_for_several_that_come():
    assert plan(facts(30), devices=0) == plan(facts(30), devices=DEVICES_TO_COME) != plan(facts(30), devices=1)
    assert plan(facts(2), devices=0) == plan(facts(2), devices=1)


def test_pages_that_do_not_follow_each_other_are_in_chunks_of_their_own():
    pages = [page for page in facts(40) if page.number in {2, 3, 4, *range(20, 40)}]
    assert [str(chunk.pages) for chunk in plan(pages)] == ["2-4", "20-29", "30-39"]


@pytest.mark.parametrize("pages", [[], facts(2) + facts(1), facts(2)[::-1]])
def test_facts_that_do_not_ascend_are_refused(pages):
    with pytest.raises(ValueError, match="ascending"):
        plan(pages)


@pytest.mark.parametrize("bound", [{"target": timedelta(0)}, {"max_pages": 0}, {"page_ms": 0}])
def test_a_bound_that_allows_nothing_is_refused(bound):
    with pytest.raises(ValueError, match="no chunks within"):
        plan(facts(1), **bound)


def test_a_page_of_a4_at_200_dpi_costs_what_was_measured_for_it():
    assert page_cost_ms(facts(1)[0], page_ms=4_000) == pytest.approx(4_000, rel=0.01)


def test_cost_grows_with_pixels_but_has_a_floor():
    sides = [10, 200, 600, 1200]
    costs = [page_cost_ms(facts(1, width_pt=side, height_pt=side)[0], page_ms=4_000) for side in sides]
    assert costs[0] == costs[1] == 1_000
    assert all(smaller < larger for smaller, larger in pairwise(costs[1:]))


def test_only_scans_and_mixed_pages_are_recognised():
    each = [facts(1, page_class)[0] for page_class in PageClass]
    assert pages_to_recognise(each) == 2


@pytest.mark.parametrize(
    ("policy", "scans", "has_accelerator", "lane"),
    [
        (LanePolicy.AUTO, 9, True, Lane.GPU),
        (LanePolicy.AUTO, 8, True, Lane.CPU),
        (LanePolicy.AUTO, 900, False, Lane.CPU),
        (LanePolicy.CPU, 900, True, Lane.CPU),
        (LanePolicy.GPU, 1, False, Lane.GPU),
    ],
)
def test_the_lane_is_the_one_asked_for_or_follows_from_the_length(policy, scans, has_accelerator, lane):
    pages = facts(scans) + facts(50, PageClass.TEXT_LAYER, first=scans + 1)
    assert choose_lane(policy, pages, has_accelerator=has_accelerator) is lane
