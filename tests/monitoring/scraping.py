"""Reading what processes say on their ports."""

from collections import Counter
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.waiting import eventually


def get(port, path="/metrics"):
    """Return the status and text; wait for a process that has yet to bind its port."""
    return eventually(lambda: answer(port, path))


def answer(port, path="/metrics"):
    """Return the status and text, None if nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answered:
            return answered.status, answered.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except (URLError, OSError):
        return None


def samples_of(text):
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


class Scrape:
    """What one or several processes say, added up."""

    def __init__(self, *ports):
        self.samples = [sample for port in ports for sample in samples_of(get(port)[1])]
        self.names = {sample.name for sample in self.samples}

    def by(self, name, *labels):
        """Add up the samples of this name by some of their labels; what is zero is left out."""
        found = Counter()
        for sample in self.samples:
            if sample.name == name:
                found[tuple(sample.labels[label] for label in labels)] += sample.value
        return {labels if len(labels) > 1 else labels[0]: value for labels, value in found.items() if value}

    def one(self, name, **labels):
        """Return the only sample of this name and these labels."""
        [value] = [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        return value
