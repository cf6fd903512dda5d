"""Watches processes of a test as Prometheus would, at moments of the test's own time."""

import re
from datetime import timedelta

from pipeline.embedded.ports import PortPicker
from tests.deploy.composing import shipped_alerts
from tests.deploy.promql import History, evaluate
from tests.monitoring.scraping import answer, get, samples_of
from tests.waiting import eventually

_STEP = timedelta(minutes=1)
_BEFORE = timedelta(hours=1)
"""As far back as an alert looks."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours"}


class Watch:
    """Scrapes whom it has given a port, and says which alerts fire."""

    def __init__(self, folder):
        self.history = History()
        self._picker = PortPicker(folder)
        self._ports = {}
        self._now = timedelta(0)

    def port_for(self, instance):
        """Return the variables by which a process can be watched under this name."""
        port = self._ports[instance] = self._picker.pick()
        return {"MUNIMENT_METRICS__PORT": str(port), "MUNIMENT_METRICS__EVERY": "PT0.01S"}

    def see_all(self):
        """Wait until everybody answers."""
        for port in self._ports.values():
            get(port)

    def scrape(self, after=_STEP):
        """Ask everybody, so long after the last time; whoever does not answer is down."""
        self._now += after
        self.history.add(self._now.total_seconds(), [sample for each in self._ports for sample in self._said_by(each)])

    def _said_by(self, instance):
        target = {"job": "muniment", "instance": instance}
        answered = answer(self._ports[instance])
        yield "up", target, float(answered is not None)
        if answered is not None:
            for sample in samples_of(answered[1]):
                yield sample.name, sample.labels | target, sample.value

    def ask(self, expression):
        """Return what an expression says now, by dicts of labels."""
        values = evaluate(expression, self.history, self._now.total_seconds())
        return [(dict(labels), value) for labels, value in values.items()]

    # --- alerts

    def is_quiet(self):
        """Make sure that no alert fires, neither at the beginning nor an hour later."""
        self.see_all()
        for after in (_STEP, _BEFORE):
            self.scrape(after)
            assert (met := self._met()) == set(), met

    def fires(self, *alerts):
        """Make sure that these alerts fire and no others: their conditions are met, and after their `for` still."""
        self._now += _STEP
        try:
            # Whoever has just read the rows answers for a moment from what it remembers.
            eventually(lambda: self._met_anew() == set(alerts))
        except AssertionError as error:
            raise AssertionError(f"{self._met()} fire, not {set(alerts)}") from error
        rules = shipped_alerts()
        for alert in alerts:
            assert _labels_named_by(rules[alert]) <= self._labels_of(rules[alert]), alert
        held = {alert: _duration(rules[alert]["for"]) for alert in alerts if "for" in rules[alert]}
        if held:
            self.scrape(max(held.values()))
            assert held.keys() <= (met := self._met()), met

    def _met_anew(self):
        self.scrape(timedelta(0))
        return self._met()

    def _met(self):
        return {name for name, rule in shipped_alerts().items() if self.ask(rule["expr"])}

    def _labels_of(self, rule):
        """Return the labels that every series of an alert has."""
        return set.intersection(*(set(labels) for labels, _ in self.ask(rule["expr"])))


def _labels_named_by(rule):
    return {name for text in rule["annotations"].values() for name in re.findall(r"\$labels\.(\w+)", text)}


def _duration(text):
    number, unit = re.fullmatch(r"(\d+)([smh])", text).groups()
    return timedelta(**{_UNITS[unit]: int(number)})
