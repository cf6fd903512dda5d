from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.fairness import Share, Waiting, Window, next_in_turn
from tests.builders import STEADY

START = datetime(2026, 1, 1, tzinfo=UTC)
WIDE = Window(least=10_000, most=10_000, ahead_ms=0)


def waiting(*costs, name="", priority=0):
    return [
        Waiting(item=f"{name}{number}", priority=priority, since=START + timedelta(seconds=number), cost_ms=cost)
        for number, cost in enumerate(costs)
    ]


def served(rounds, shares, queues, room=1):
    """Admit one after another, as rounds of dispatchers do, and return the cost that each tenant was given."""
    shares, queues, given_ms = (
        dict(shares),
        {name: list(items) for name, items in queues.items()},
        dict.fromkeys(shares, 0),
    )
    for _ in range(rounds):
        chosen, changed = next_in_turn(shares, queues, Window(least=room, most=room, ahead_ms=0), 0, 0)
        shares |= changed
        for item in chosen:
            name = item.rstrip("0123456789")
            given_ms[name] += queues[name].pop(0).cost_ms
    return given_ms


@pytest.mark.parametrize(
    ("count", "cost_ms", "room"),
    [(0, 0, True), (1, 10**6, True), (2, 0, True), (2, 999, True), (2, 1000, False), (8, 0, False)],
)
def test_a_window_takes_its_least_and_more_only_of_short_work(count, cost_ms, room):
    assert Window(least=2, most=8, ahead_ms=1000).has_room(count, cost_ms) is room


def test_a_single_tenants_work_goes_in_its_own_order():
    chosen, _ = next_in_turn({"a": Share()}, {"a": waiting(5, 5, 5)}, WIDE, 0, 0)
    assert chosen == ["0", "1", "2"]


def test_equal_tenants_take_turns_by_cost_not_by_count():
    queues = {"a": waiting(*[10] * 100, name="a"), "b": waiting(*[30] * 100, name="b")}
    given_ms = served(80, {"a": Share(), "b": Share()}, queues)
    assert abs(given_ms["a"] - given_ms["b"]) <= 30


def test_a_tenant_of_twice_the_weight_is_given_twice_as_much():
    queues = {name: waiting(*[10] * 400, name=name) for name in "ab"}
    given_ms = served(90, {"a": Share(), "b": Share(weight=2)}, queues)
    assert (given_ms["a"], given_ms["b"]) == (300, 600)


def test_being_idle_saves_nothing_up():
    queues = {name: waiting(*[10] * 100, name=name) for name in "ab"}
    shares = {"a": Share(started=5000, finished=5010), "b": Share()}
    assert served(20, shares, queues) == {"a": 100, "b": 100}


def test_higher_priority_goes_first_whoever_it_is():
    queues = {"a": waiting(1, 1), "b": waiting(1, 1, name="urgent", priority=3)}
    chosen, _ = next_in_turn({"a": Share(), "b": Share(finished=10**9)}, queues, WIDE, 0, 0)
    assert chosen[:2] == ["urgent0", "urgent1"]


def test_nothing_waiting_changes_nothing():
    assert next_in_turn({"a": Share()}, {"a": []}, WIDE, 0, 0) == ([], {})


def test_a_weight_of_nothing_is_refused():
    with pytest.raises(ValueError, match="above 0"):
        Share(weight=0)


costs = st.lists(st.integers(0, 500), min_size=60, max_size=60)


@STEADY
@given(st.lists(st.tuples(st.sampled_from([0.5, 1, 2, 4]), costs), min_size=2, max_size=4), st.integers(1, 5))
def test_tenants_with_a_backlog_stay_within_one_piece_of_each_other(tenants, room):
    """Source of the bound: Goyal et al. 1997, theorem 1."""
    names = "abcd"[: len(tenants)]
    shares = {name: Share(weight=weight) for name, (weight, _) in zip(names, tenants, strict=True)}
    queues = {name: waiting(*work, name=name) for name, (_, work) in zip(names, tenants, strict=True)}
    given_ms = served(60 // room // 2, shares, queues, room)
    longest = {name: max(1, *work) for name, (_, work) in zip(names, tenants, strict=True)}
    for a in names:
        for b in names:
            apart = abs(given_ms[a] / shares[a].weight - given_ms[b] / shares[b].weight)
            # A piece that costs nothing is taken to cost a millisecond.
            rounding = 60 / min(shares[a].weight, shares[b].weight)
            assert apart <= longest[a] / shares[a].weight + longest[b] / shares[b].weight + rounding
