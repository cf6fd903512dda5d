"""A device is sick after several different chunks broke its runner in a row, and well after a probe."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.device_health import Health
from pipeline.domain.document import ChunkId
from pipeline.domain.errors import ErrorCode

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = timedelta(minutes=1)
WELL = Health(sick_after=3, probe_every=LATER)
DIED = ErrorCode.PROCESS_DIED


def chunk(number):
    return ChunkId(UUID(int=number))


def after(*chunks, health=WELL, code=DIED):
    for number in chunks:
        health = health.failed(chunk(number), code, NOW)
    return health


def test_different_chunks_in_a_row_make_it_sick_until_the_probe_is_due():
    assert not after(1, 2).is_sick
    sick = after(1, 2, 3)
    assert sick.is_sick
    assert not sick.is_due(NOW)
    assert sick.is_due(NOW + LATER)


def test_a_runner_that_does_not_go_away_sets_it_aside_at_once_until_one_is_ready() -> None:
    aside = WELL.set_aside(NOW)
    assert aside.is_sick
    assert not aside.is_due(NOW)
    assert not aside.probed().is_sick


def test_one_poisonous_chunk_however_often_does_not():
    assert not after(1, 1, 1, 1, 2, 2).is_sick


def test_pages_that_were_finished_between_them_clear_it():
    assert not after(2, 3, health=after(1, 2).worked()).is_sick


@pytest.mark.parametrize("code", [ErrorCode.ENGINE_FAILED, ErrorCode.STORE_UNAVAILABLE, ErrorCode.ENGINE_UNAVAILABLE])
def test_failures_that_leave_the_runner_alone_say_nothing_of_the_device(code):
    assert not after(1, 2, 3, 4, code=code).is_sick


def test_a_probe_makes_a_sick_device_well_and_one_in_vain_puts_the_next_off():
    sick = after(1, 2, 3)
    again = sick.probed_in_vain(NOW + LATER)
    assert again.is_sick
    assert not again.is_due(NOW + LATER)
    assert sick.probed() == WELL


def test_a_runner_that_gets_ready_between_two_chunks_clears_no_suspicion():
    assert after(3, health=after(1, 2).probed()).is_sick


def test_runners_that_do_not_get_ready_make_it_sick_but_once_may_be_chance():
    health = WELL.probed_in_vain(NOW)
    assert not health.is_sick
    assert health.is_due(NOW)
    assert health.probed_in_vain(NOW).probed_in_vain(NOW).is_sick
    assert not health.probed().probed_in_vain(NOW).probed_in_vain(NOW).is_sick


@given(st.lists(st.sampled_from(["fail", "work", "ready", "vain"]), max_size=30), st.integers(1, 4))
def test_whatever_happened_a_finished_page_makes_it_well(events, sick_after):
    health = fresh = Health(sick_after=sick_after, probe_every=LATER)
    for number, event in enumerate(events):
        match event:
            case "fail":
                health = health.failed(chunk(number), DIED, NOW)
            case "work":
                health = health.worked()
            case "ready":
                health = health.probed()
            case "vain":
                health = health.probed_in_vain(NOW)
    assert health.worked() == fresh
