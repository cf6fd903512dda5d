"""Evaluates PromQL over scrapes that a test has made: as much of it as the alert rules and the board use.

It does what Prometheus 3 does (promql/functions.go, promql/quantile.go), with all targets scraped at the same moments.
Whatever else an expression may say is refused by `NotSpoken`, and never taken for no data.

All series that a selector chooses have one name, so that no two of them are the same without it.
"""

import math
import operator
import re
from collections import defaultdict
from itertools import pairwise

import promql_parser as promql

LOOKBACK_S = 300
"""How old the newest scrape may be; Prometheus' default."""
NAME = "__name__"


class NotSpoken(NotImplementedError):
    """The expression says something that this does not know."""


class History:
    """What was scraped, and when. A series that the newest scrape does not have is gone, as by a staleness marker."""

    def __init__(self):
        self._scrapes = []

    def add(self, at_s, samples):
        """Take a scrape of all targets in: names, labels and values. Another one at the same time takes its place."""
        assert not self._scrapes or at_s >= self._scrapes[-1][0], "time goes one way"
        if self._scrapes and at_s == self._scrapes[-1][0]:
            del self._scrapes[-1]
        series = {labelled({NAME: name, **labels}): value for name, labels, value in samples}
        self._scrapes.append((at_s, series))

    def newest(self, at_s):
        """Return the series of that time."""
        return next((series for _, series in reversed(self.between(at_s - LOOKBACK_S, at_s))), {})

    def between(self, start_s, end_s):
        """Return times and series of the scrapes after the start, until the end."""
        return [(at_s, series) for at_s, series in self._scrapes if start_s < at_s <= end_s]


def evaluate(expression, history, at_s):
    """Return the values at that time by their labels, a set of pairs.

    Raises: NotSpoken; ValueError, if it is no PromQL.
    """
    value = _Evaluation(history, at_s).of(promql.parse(expression))
    return value if isinstance(value, dict) else {labelled({}): value}


def labelled(labels):
    """Return labels as they identify a series: an empty one is as good as none."""
    return frozenset((name, value) for name, value in labels.items() if value)


class _Evaluation:
    """Of one expression at one time: a scalar is a float, a vector a dict by labels."""

    def __init__(self, history, at_s):
        self._history = history
        self._at_s = at_s

    def of(self, node):
        match node:
            case promql.NumberLiteral():
                return node.val
            case promql.ParenExpr():
                return self.of(node.expr)
            case promql.VectorSelector():
                return _chosen(node, self._history.newest(self._time_of(node)))
            case promql.AggregateExpr():
                return _aggregate(node, self.of(node.expr))
            case promql.BinaryExpr():
                return _binary(node, self.of(node.lhs), self.of(node.rhs))
            case promql.Call():
                return self._call(node.func.name, node.args)
        raise NotSpoken(f"{type(node).__name__}: {node}")

    def _time_of(self, selector):
        if selector.at is not None:
            raise NotSpoken(str(selector))
        return self._at_s - (selector.offset.total_seconds() if selector.offset else 0)

    def _call(self, name, arguments):
        match name, arguments:
            case "vector", [scalar]:
                return {labelled({}): self.of(scalar)}
            case "absent", [promql.VectorSelector() as selector]:
                said = {matcher.name: matcher.value for matcher in _matchers(selector) if _is_equality(matcher)}
                return {} if self.of(selector) else {labelled(said): 1.0}
            case (("increase" | "rate"), [promql.MatrixSelector() as selector]):
                per_s = selector.range.total_seconds() if name == "rate" else 1
                return {labels: value / per_s for labels, value in self._increase(selector).items()}
            case "histogram_quantile", [quantile, buckets]:
                return _quantiles(self.of(quantile), self.of(buckets))
        raise NotSpoken(f"{name}({', '.join(map(str, arguments))})")

    def _increase(self, matrix):
        selector = matrix.vector_selector
        end_s = self._time_of(selector)
        start_s = end_s - matrix.range.total_seconds()
        points = defaultdict(list)
        for at_s, series in self._history.between(start_s, end_s):
            for labels, value in _chosen(selector, series).items():
                points[_unnamed(labels)].append((at_s, value))
        return {labels: _extrapolated(seen, start_s, end_s) for labels, seen in points.items() if len(seen) > 1}


def _extrapolated(points, start_s, end_s):
    """Return how much a counter rose, as extrapolatedRate does: out to the borders if points come close to them."""
    (first_s, first), (last_s, _) = points[0], points[-1]
    rise = sum(later - earlier if later >= earlier else later for (_, earlier), (_, later) in pairwise(points))
    sampled_s = last_s - first_s
    usual_s = sampled_s / (len(points) - 1)
    before_s, after_s = (gap if gap < 1.1 * usual_s else usual_s / 2 for gap in (first_s - start_s, end_s - last_s))
    if rise > 0:  # it can't have been below zero
        before_s = min(before_s, sampled_s * first / rise)
    return rise * (sampled_s + before_s + after_s) / sampled_s


def _matchers(selector):
    if selector.matchers.or_matchers or selector.name is None:
        raise NotSpoken(str(selector))
    return selector.matchers.matchers


def _is_equality(matcher):
    return matcher.op == promql.MatchOp.Equal


def _chosen(selector, series):
    wanted = _matchers(selector)

    def is_chosen(labels):
        said = dict(labels)
        return said[NAME] == selector.name and all(_matches(matcher, said.get(matcher.name, "")) for matcher in wanted)

    return {labels: value for labels, value in series.items() if is_chosen(labels)}


def _matches(matcher, value):
    if matcher.op in (promql.MatchOp.Equal, promql.MatchOp.NotEqual):
        return (value == matcher.value) is _is_equality(matcher)
    return bool(re.fullmatch(matcher.value, value)) is (matcher.op == promql.MatchOp.Re)


def _unnamed(labels):
    return frozenset(pair for pair in labels if pair[0] != NAME)


_AGGREGATES = {"sum": math.fsum, "max": max, "min": min}


def _aggregate(node, vector):
    kept, operation = (), str(node.op)
    if node.modifier is not None:
        kept = node.modifier.labels
        if node.modifier.type != promql.AggModifierType.By:
            raise NotSpoken(str(node))
    if operation not in _AGGREGATES or node.param is not None:
        raise NotSpoken(str(node))
    groups = defaultdict(list)
    for labels, value in vector.items():
        groups[frozenset(pair for pair in labels if pair[0] in kept)].append(value)
    if operation != "sum":  # the greatest and the least of numbers, if there is one
        groups = {
            labels: [value for value in group if not math.isnan(value)] or group for labels, group in groups.items()
        }
    return {labels: _AGGREGATES[operation](group) for labels, group in groups.items()}


def _divided(dividend, divisor):
    try:
        return dividend / divisor
    except ZeroDivisionError:
        return math.copysign(math.inf, divisor) * dividend  # no number for 0 / 0


_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divided}
_COMPARISONS = {">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne}


def _binary(node, left, right):
    operation = str(node.op)
    if node.modifier is not None and _is_elaborate(node.modifier):
        raise NotSpoken(str(node))
    if operation == "or" and isinstance(left, dict) and isinstance(right, dict):
        known = {_unnamed(labels) for labels in left}
        return left | {labels: value for labels, value in right.items() if _unnamed(labels) not in known}
    if compute := _ARITHMETIC.get(operation):
        if not isinstance(left, dict) and not isinstance(right, dict):
            return compute(left, right)
        return {_unnamed(labels): compute(one, other) for labels, one, other in _paired(left, right)}
    if compare := _COMPARISONS.get(operation):
        kept = [(labels, one, other) for labels, one, other in _paired(left, right) if compare(one, other)]
        return {labels: one if isinstance(left, dict) else other for labels, one, other in kept}
    raise NotSpoken(str(node))


def _is_elaborate(modifier):
    filled = (modifier.fill_values.lhs, modifier.fill_values.rhs)
    return modifier.matching or modifier.return_bool or modifier.group_labels is not None or filled != (None, None)


def _paired(left, right):
    """Return labels and the values on both sides: those of a scalar with all, those of vectors by all their labels."""
    if not isinstance(right, dict):
        return [(labels, value, right) for labels, value in left.items()]
    if not isinstance(left, dict):
        return [(labels, left, value) for labels, value in right.items()]
    others = {_unnamed(labels): value for labels, value in right.items()}
    matched = ((labels, value, others.get(_unnamed(labels))) for labels, value in left.items())
    return [(labels, value, other) for labels, value, other in matched if other is not None]


def _quantiles(quantile, vector):
    if not 0 <= quantile <= 1:
        raise NotSpoken(f"quantile {quantile}")
    histograms = defaultdict(list)
    for labels, count in vector.items():
        bound = dict(labels).get("le")
        if bound is not None:
            rest = frozenset(pair for pair in _unnamed(labels) if pair[0] != "le")
            histograms[rest].append((float(bound), count))
    return {labels: _quantile(quantile, sorted(buckets)) for labels, buckets in histograms.items()}


def _quantile(quantile, buckets):
    """Return it as bucketQuantile does: linear within a bucket, and at most the highest bound that is finite."""
    highest, total = buckets[-1]
    if highest != math.inf or len(buckets) < 2 or not total:
        return math.nan
    rank = quantile * total
    number = next(number for number, (_, count) in enumerate(buckets) if count >= rank)
    if number == len(buckets) - 1:
        return buckets[-2][0]
    start, below = buckets[number - 1] if number else (0.0, 0.0)
    end, count = buckets[number]
    if not number and end <= 0:
        return end
    return start + (end - start) * _divided(rank - below, count - below)
