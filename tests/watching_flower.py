"""Flower over the processes of a system."""

import base64
import urllib.error
import urllib.request

from pipeline.embedded.ports import PortPicker
from tests.waiting import eventually

USER = "watcher:secret"


def start_flower(system):
    """Start it, and return a function that asks Flower for a path; it listens for events before any work is done."""
    port = PortPicker(system.folder).pick()
    system.environment |= {
        "FLOWER_ADDRESS": "127.0.0.1",
        "FLOWER_PORT": str(port),
        "FLOWER_BASIC_AUTH": USER,
        "FLOWER_DB": str(system.folder / "flower.db"),
        "FLOWER_PERSISTENT": "true",
        "FLOWER_READ_ONLY": "true",
    }
    system.spawn("flower", "pipeline.cli", "flower")

    def ask(path, user=USER):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
        if user:
            request.add_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()

    def answers():
        try:
            return ask("/api/tasks")
        except urllib.error.HTTPError as refusal:
            refusal.close()
        except (urllib.error.URLError, ConnectionError):
            pass
        return None

    eventually(answers, within=60)
    return ask
