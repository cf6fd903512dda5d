"""The evaluator says what Prometheus says.

Numbers that are said to be theirs are from Prometheus' own tests (promql/promqltest/testdata).
"""

import math
import re

import pytest

from tests.deploy.composing import shipped_expressions
from tests.deploy.promql import History, NotSpoken, evaluate

MINUTE = 60
DOORS = {
    'doors{house="a",side="front"}': 2,
    'doors{house="a",side="back"}': 1,
    'doors{house="b",side="front"}': 4,
    'doors{house="c"}': 8,
    'windows{house="a",side="front"}': 10,
    'windows{house="b",side="front"}': 2,
    'windows{house="d"}': 3,
}


def sample(series, value):
    name, _, labels = series.partition("{")
    return name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), value


def scraped(every_s=MINUTE, **series):
    """Return a history of series that have these values, one after the other, None where they are not there."""
    history = History()
    for number, values in enumerate(zip(*series.values(), strict=True)):
        known = [(name, {}, value) for name, value in zip(series, values, strict=True) if value is not None]
        history.add(number * every_s, known)
    return history


@pytest.fixture
def doors():
    history = History()
    history.add(0, [sample(series, value) for series, value in DOORS.items()])
    return history


def found(expression, history, at_s=0):
    """Return values by the labels' values, joined in the order of their names."""
    values = evaluate(expression, history, at_s)
    return {" ".join(value for _, value in sorted(labels)): value for labels, value in values.items()}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('doors{side="front"}', {"doors a front": 2, "doors b front": 4}),
        ('doors{side!="front"}', {"doors a back": 1, "doors c": 8}),
        ('doors{side=""}', {"doors c": 8}),
        ('doors{side=~"fro|back"}', {"doors a back": 1}),
        ('doors{side=~".*",house!~"a|b"}', {"doors c": 8}),
        ("gates", {}),
        ("sum(doors)", {"": 15}),
        ("sum by (house) (doors)", {"a": 3, "b": 4, "c": 8}),
        ("max by (side) (doors)", {"front": 4, "back": 1, "": 8}),
        ("min by (house, side) (doors)", {"a front": 2, "a back": 1, "b front": 4, "c": 8}),
        ("sum(gates)", {}),
        ("doors > 2", {"doors b front": 4, "doors c": 8}),
        ("2 > doors", {"doors a back": 1}),
        ("doors == 8", {"doors c": 8}),
        ("windows / doors", {"a front": 5, "b front": 0.5}),
        ("doors > windows", {"doors b front": 4}),
        ("2 * doors - 1 > 7", {"c": 15}),
        ("sum(doors) / sum(windows)", {"": 1}),
        ("sum(doors) / sum(gates)", {}),
        ("sum(doors) / 0", {"": math.inf}),
        ("sum(doors - doors) / 0 > 0.05", {}),
        ("doors{side='front'} or windows", {"doors a front": 2, "doors b front": 4, "windows d": 3}),
        ("gates or vector(0)", {"": 0}),
        ("doors > 7 or vector(0)", {"doors c": 8, "": 0}),
        ('absent(gates{house="a",side=~"f.*"})', {"a": 1}),
        ("absent(doors)", {}),
        ("max(gates) == 0 or absent(gates)", {"": 1}),
        ("2 * 3", {"": 6}),
    ],
)
def test_what_is_asked_of_one_scrape(doors, expression, expected):
    assert found(expression, doors) == expected


def test_the_newest_scrape_counts_for_five_minutes_and_only_for_what_it_has():
    history = scraped(steady=(1, 2, 3), gone=(1, 2, None))
    assert found("steady or gone", history, 1.5 * MINUTE) == {"steady": 2}
    assert found("sum(gone)", history, 1.5 * MINUTE) == {"": 2}
    assert found("gone", history, 2 * MINUTE) == {}
    assert found("steady", history, 7 * MINUTE - 1) == {"steady": 3}
    assert found("steady", history, 7 * MINUTE) == {}
    assert found("steady - steady offset 2m", history, 2 * MINUTE) == {"": 2}
    assert found("steady offset 10m", history, 2 * MINUTE) == {}


@pytest.fixture
def requests():
    """The series that Prometheus tests its `increase` by, a point each five minutes."""
    ramp = range(0, 101, 10)
    return scraped(
        every_s=5 * MINUTE,
        foo=tuple(ramp),
        bar=(*range(0, 91, 18), *range(0, 73, 18)),
        dings=tuple(10 + value for value in ramp),
        bumms=tuple(1 + value for value in ramp),
    )


def test_an_increase_is_extrapolated_and_knows_resets(requests):
    within, beyond = (
        {"foo": 100, "bar": 160, "dings": 100, "bumms": 100},
        {"foo": 100, "bar": 162, "dings": 105, "bumms": 101},
    )
    for range_, expected in (("50m", within), ("100m", beyond)):  # theirs
        for name, value in expected.items():
            assert found(f"increase({name}[{range_}])", requests, 50 * MINUTE) == {"": pytest.approx(value)}
            [rate] = found(f"rate({name}[{range_}])", requests, 50 * MINUTE).values()
            assert rate == pytest.approx(value / int(range_[:-1]) / MINUTE)


def test_an_increase_needs_two_points(requests):
    assert found("increase(foo[5m])", requests, 50 * MINUTE) == {}
    assert found("increase(gates[50m])", requests, 50 * MINUTE) == {}
    assert found("increase(foo[15m] offset 25m)", requests, 50 * MINUTE) == {"": pytest.approx(30)}


@pytest.mark.parametrize(("quantile", "expected"), [(0, 0), (0.2, 0.048), (0.5, 0.15), (0.8, 0.72), (1, 1)])
def test_a_quantile_is_linear_within_its_bucket(quantile, expected):
    history = History()
    counts = {"0.1": 5, "0.2": 7, "1e0": 11, "+Inf": 12}  # and the values are theirs
    history.add(0, [("seconds_bucket", {"le": le, "step": "merge"}, count) for le, count in counts.items()])
    assert found(f"histogram_quantile({quantile}, seconds_bucket)", history) == {"merge": pytest.approx(expected)}


def test_there_is_no_quantile_of_nothing():
    history = History()
    history.add(0, [("seconds_bucket", {"le": le}, 0) for le in ("1", "+Inf")])
    [value] = found("histogram_quantile(0.5, seconds_bucket)", history).values()
    assert math.isnan(value)


@pytest.mark.parametrize(
    "expression",
    [
        "sum without (side) (doors)",
        "count(doors)",
        "topk(1, doors)",
        "doors and windows",
        "doors unless windows",
        "doors > bool 1",
        "doors / on (house) windows",
        "doors / ignoring (side) windows",
        "doors * on (house) group_left windows",
        "doors + fill(0) windows",
        "doors % 2",
        "-doors",
        "doors @ 5",
        "doors[5m]",
        "increase(doors[5m:1m])",
        "irate(doors[5m])",
        "absent(sum(doors))",
        "histogram_quantile(2, doors_bucket)",
        '{__name__="doors"}',
        'doors{house="a" or house="b"}',
        '"doors"',
    ],
)
def test_whatever_else_it_may_be_asked_is_refused(doors, expression):
    with pytest.raises(NotSpoken):
        evaluate(expression, doors, 0)


def test_what_is_no_promql_is_refused(doors):
    with pytest.raises(ValueError, match="parenthesis"):
        evaluate("sum(doors", doors, 0)


def test_every_expression_that_is_shipped_can_be_asked(doors):
    for _, expression in shipped_expressions():
        evaluate(expression, doors, 0)
