"""Flower over our application: one tree for each document, nothing but ids, and nothing for strangers."""

import base64
import json
import urllib.error
import urllib.request

import pytest

from pipeline.domain.states import JobState
from pipeline.embedded.ports import PortPicker
from tests.system import scan
from tests.waiting import eventually

USER = "watcher:secret"


@pytest.fixture
def flower(system):
    """Return a function that asks Flower for a path; it listens for events before any work is done."""
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


def test_the_chains_of_a_document_are_one_tree(system, flower, tmp_path):
    system.start(slots=2)
    eventually(lambda: len(json.loads(flower("/api/workers?refresh=1"))) == 3, within=60)
    job_id = system.submit(scan(tmp_path, 10))
    assert system.finished(job_id).state is JobState.SUCCEEDED

    def all_seen():
        tasks = json.loads(flower("/api/tasks"))
        done = {id_: task for id_, task in tasks.items() if task["state"] == "SUCCESS"}
        return done if len(done) == 7 else None

    tasks = eventually(all_seen, within=30)
    assert {task["root_id"] for task in tasks.values()} == {str(job_id)}
    names = sorted(task["name"].removeprefix("muniment.") for task in tasks.values())
    assert names == ["deliver", "export", "ingest", "merge", "recognise", "recognise", "split"]
    root = tasks[str(job_id)]
    assert root["parent_id"] is None
    # Every other task hangs below it.
    for id_, task in tasks.items():
        while id_ != str(job_id):
            id_, task = task["parent_id"], tasks[task["parent_id"]]  # noqa: PLW2901 - climbing is the point


def test_strangers_see_no_tasks(flower):
    with pytest.raises(urllib.error.HTTPError) as refused:
        flower("/api/tasks", user=None)
    assert refused.value.code == 401
    refused.value.close()


def test_nothing_of_a_document_passes_the_broker_or_stands_in_a_log(system, flower, tmp_path):
    system.environment["MUNIMENT_LOG__LEVEL"] = "DEBUG"
    system.start()
    path = scan(tmp_path, 2, name="marker-in-the-file-name.pdf")
    job_id = system.submit(path)
    system.finished(job_id)
    eventually(lambda: len(json.loads(flower("/api/tasks"))) >= 6)
    seen = flower("/api/tasks") + "".join(log.read_text() for log in tmp_path.glob("*.log"))
    assert str(job_id) in seen
    assert "marker-in-the-file-name" not in seen
    assert "page 1" not in seen
