from dataclasses import asdict
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.errors import ErrorCode
from pipeline.domain.retry import (
    AttemptLimits,
    Attempts,
    Counter,
    Fault,
    GiveUp,
    ReadWith,
    Retry,
    Split,
    counter_of,
    decide,
    decide_step,
    fault_of,
    split_range,
)
from tests.builders import STEADY

LIMITS = AttemptLimits(max_attempts=3, max_lost=10, max_waits=20)
PROCESS = [ErrorCode.PROCESS_DIED, ErrorCode.STALLED, ErrorCode.OUT_OF_MEMORY]
SERVICE = [ErrorCode.STORE_UNAVAILABLE, ErrorCode.DATABASE_UNAVAILABLE, ErrorCode.BROKER_UNAVAILABLE]


def chunk(code, *, pages_left=10, limits=LIMITS, jitter=0.0, **before):
    """Decide after an attempt that followed so many in vain."""
    attempts = Attempts(**before).and_one(code)
    return decide(code, attempts=attempts, pages_left=pages_left, limits=limits, jitter=jitter)


def step(code, *, jitter=0.0, **before):
    return decide_step(code, attempts=Attempts(**before).and_one(code), limits=LIMITS, jitter=jitter)


codes = st.sampled_from(ErrorCode)
counts = st.integers(0, 40)
jitters = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_is_somebodys_fault(code):
    assert fault_of(code) in Fault


@pytest.mark.parametrize("code", PROCESS)
def test_a_process_that_died_once_is_tried_again(code):
    assert isinstance(chunk(code, failures=0), Retry)


@pytest.mark.parametrize("code", PROCESS)
def test_a_chunk_that_killed_its_process_twice_is_split(code):
    assert chunk(code, failures=1) == Split()


@pytest.mark.parametrize("code", PROCESS)
def test_a_single_page_is_tried_up_to_the_cap_and_then_given_up_with_its_cause(code):
    assert isinstance(chunk(code, failures=1, pages_left=1), Retry)
    assert chunk(code, failures=2, pages_left=1) == GiveUp(code=code)


@pytest.mark.parametrize("code", PROCESS)
def test_a_single_page_for_which_there_is_never_memory_is_left_to_the_other_engine(code):
    def decided(failures, pages_left=1):
        attempts = Attempts(failures=failures)
        return decide(code, attempts=attempts, pages_left=pages_left, limits=LIMITS, jitter=0.0, other_engine="other")

    assert isinstance(decided(2), Retry)
    assert isinstance(decided(3, pages_left=2), Split)
    of_memory = ReadWith(engine="other")
    assert decided(3) == (of_memory if code is ErrorCode.OUT_OF_MEMORY else GiveUp(code=code))


def test_with_one_attempt_allowed_a_killer_is_split_at_once():
    once = AttemptLimits(max_attempts=1, max_lost=1, max_waits=1)
    assert chunk(ErrorCode.PROCESS_DIED, limits=once) == Split()
    assert chunk(ErrorCode.PROCESS_DIED, pages_left=1, limits=once) == GiveUp(code=ErrorCode.PROCESS_DIED)


def test_an_unexplained_failure_is_split_only_when_its_attempts_are_used_up():
    assert isinstance(chunk(ErrorCode.INTERNAL, failures=1), Retry)
    assert chunk(ErrorCode.INTERNAL, failures=2) == Split()
    assert chunk(ErrorCode.INTERNAL, failures=2, pages_left=1) == GiveUp(code=ErrorCode.INTERNAL)


def test_a_server_that_documents_come_from_is_waited_for_only_so_often():
    assert isinstance(step(ErrorCode.SOURCE_UNAVAILABLE, lost=8), Retry)
    assert step(ErrorCode.SOURCE_UNAVAILABLE, lost=9) == GiveUp(code=ErrorCode.SOURCE_UNAVAILABLE)


def test_a_page_fault_sets_the_page_apart_without_another_try():
    assert chunk(ErrorCode.PAGE_DAMAGED) == Split()
    assert chunk(ErrorCode.PAGE_DAMAGED, pages_left=1) == GiveUp(code=ErrorCode.PAGE_DAMAGED)


@pytest.mark.parametrize(
    ("code", "counter"),
    [
        (ErrorCode.PROCESS_DIED, Counter.FAILURES),
        (ErrorCode.INTERNAL, Counter.FAILURES),
        (ErrorCode.LEASE_EXPIRED, Counter.LOST),
        (ErrorCode.ENGINE_UNAVAILABLE, Counter.LOST),
        (ErrorCode.STORE_UNAVAILABLE, Counter.WAITS),
    ],
)
def test_each_kind_of_fault_uses_up_its_own_count_and_no_other(code, counter):
    last = {Counter.FAILURES: 2, Counter.LOST: 9, Counter.WAITS: 19}
    others = {other.value: count for other, count in last.items() if other is not counter}
    assert counter_of(code) is counter
    assert isinstance(chunk(code, pages_left=1, **others), Retry)
    assert isinstance(chunk(code, pages_left=1, **{counter.value: last[counter]}), GiveUp)


def test_a_chunk_that_takes_workers_down_time_and_again_is_split():
    assert chunk(ErrorCode.LEASE_EXPIRED, lost=9) == Split()
    assert chunk(ErrorCode.LEASE_EXPIRED, lost=9, pages_left=1) == GiveUp(code=ErrorCode.TOO_MANY_ATTEMPTS)


@pytest.mark.parametrize("code", SERVICE)
def test_a_service_that_stays_away_is_never_blamed_on_a_page(code):
    assert chunk(code, waits=19) == GiveUp(code=code)


def test_an_engine_that_no_worker_can_run_is_given_up_with_that_cause():
    assert chunk(ErrorCode.ENGINE_UNAVAILABLE, lost=9) == GiveUp(code=ErrorCode.ENGINE_UNAVAILABLE)


@pytest.mark.parametrize("code", [c for c in ErrorCode if fault_of(c) in (Fault.DOCUMENT, Fault.ENDED)])
def test_what_trying_again_can_not_change_is_final_at_once(code):
    assert chunk(code) == step(code) == GiveUp(code=code)


@STEADY
@given(codes, counts, counts, st.integers(0, 50), jitters)
def test_a_chunk_is_only_split_while_it_has_pages_to_divide(code, failures, lost, pages_left, jitter):
    decision = chunk(code, failures=failures, lost=lost, pages_left=pages_left, jitter=jitter)
    assert decision != Split() or pages_left > 1


@STEADY
@given(codes, st.integers(0, 50))
def test_failing_for_ever_ends_within_the_caps(code, pages_left):
    attempts = Attempts()
    while isinstance(chunk(code, **asdict(attempts), pages_left=pages_left), Retry):
        attempts = attempts.and_one(code)
        assert attempts.failures < LIMITS.max_attempts
        assert attempts.lost < LIMITS.max_lost
        assert attempts.waits < LIMITS.max_waits


@STEADY
@given(codes, counts, jitters)
def test_waits_lie_between_the_first_and_the_longest(code, before, jitter):
    limits = AttemptLimits(max_attempts=99, max_lost=99, max_waits=99)
    decision = chunk(code, **{counter_of(code).value: before}, limits=limits, jitter=jitter)
    if isinstance(decision, Retry):
        shortest, longest = (0.5, 10) if counter_of(code) is Counter.FAILURES else (1, 60)
        assert timedelta(seconds=shortest) <= decision.after <= timedelta(seconds=longest)


def test_waits_grow_and_half_of_each_is_left_to_chance():
    waits = [chunk(ErrorCode.LEASE_EXPIRED, lost=lost).after for lost in range(9)]
    assert waits == [timedelta(seconds=s) for s in (1, 2, 4, 8, 16, 30, 30, 30, 30)]
    assert all(earlier <= later for earlier, later in pairwise(waits))
    assert chunk(ErrorCode.LEASE_EXPIRED, lost=0, jitter=0.5).after == timedelta(seconds=1.5)


@pytest.mark.parametrize(
    ("code", "before", "expected"),
    [
        (ErrorCode.INTERNAL, {}, Retry(after=timedelta(seconds=0.5))),
        (ErrorCode.INTERNAL, {"failures": 2}, GiveUp(code=ErrorCode.INTERNAL)),
        (ErrorCode.STORE_UNAVAILABLE, {"failures": 2, "lost": 9, "waits": 8}, Retry(after=timedelta(seconds=30))),
        (ErrorCode.STORE_UNAVAILABLE, {"waits": 19}, GiveUp(code=ErrorCode.STORE_UNAVAILABLE)),
        (ErrorCode.LEASE_EXPIRED, {"lost": 9}, GiveUp(code=ErrorCode.TOO_MANY_ATTEMPTS)),
        (ErrorCode.PASSWORD_REQUIRED, {}, GiveUp(code=ErrorCode.PASSWORD_REQUIRED)),
        (ErrorCode.LEDGER_BROKEN, {}, GiveUp(code=ErrorCode.LEDGER_BROKEN)),
    ],
)
def test_a_step_is_tried_again_or_given_up(code, before, expected):
    assert step(code, **before) == expected


def test_limits_that_allow_no_attempt_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        AttemptLimits(max_attempts=0, max_lost=1, max_waits=1)


unfinished = st.sets(st.integers(1, 120), min_size=1, max_size=60).map(sorted)


def members(ranges):
    return [number for pages in ranges for number in pages]


@STEADY
@given(unfinished, st.none() | st.integers(1, 120))
def test_a_divided_chunk_keeps_its_pages_each_once_and_in_order(pages, suspect):
    assert members(split_range(pages, suspect=suspect)) == pages


@STEADY
@given(unfinished, st.none() | st.integers(1, 120))
def test_each_part_is_smaller_than_the_whole(pages, suspect):
    parts = split_range(pages, suspect=suspect)
    assert len(pages) == 1 or all(len(part) < len(pages) for part in parts)


@STEADY
@given(st.integers(1, 200), st.data())
def test_splitting_again_and_again_sets_any_one_page_apart_in_few_steps(count, data):
    poison = data.draw(st.integers(1, count))
    pages, splits = list(range(1, count + 1)), 0
    while len(pages) > 1:
        pages = next(list(part) for part in split_range(pages) if poison in part)
        splits += 1
    assert pages == [poison]
    assert splits <= count.bit_length()


@pytest.mark.parametrize(
    ("pages", "suspect", "parts"),
    [
        ([7], None, ["7-7"]),
        ([7, 8], None, ["7-7", "8-8"]),
        ([1, 2, 3], None, ["1-2", "3-3"]),
        ([1, 2, 3, 4, 9, 10, 30], None, ["1-2", "3-4", "9-9", "10-10", "30-30"]),
        ([1, 2, 3, 4, 9, 10], 3, ["1-2", "3-3", "4-4", "9-10"]),
        ([1, 2, 3, 4], 1, ["1-1", "2-4"]),
        ([1, 2, 3, 4], 9, ["1-2", "3-4"]),
    ],
)
def test_runs_are_halved_and_a_suspect_is_set_apart(pages, suspect, parts):
    assert [str(part) for part in split_range(pages, suspect=suspect)] == parts


@pytest.mark.parametrize("pages", [[], [2, 1], [1, 1]])
def test_pages_that_do_not_ascend_are_not_divided(pages):
    with pytest.raises(ValueError, match="ascending"):
        split_range(pages)
