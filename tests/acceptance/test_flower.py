"""Flower over our application: one tree for each document, nothing but ids, and nothing for strangers."""

import json
import urllib.error
import urllib.request
from datetime import timedelta

import pytest

from pipeline.adapters.api_keys import PostgresApiKeys
from pipeline.api.schemas import JobFields
from pipeline.client import Client
from pipeline.domain.api_keys import KeyGrant, Scope
from pipeline.domain.options import OutputFormat
from pipeline.domain.states import JobState
from pipeline.embedded.ports import PortPicker
from tests.acceptance.test_the_main_road import text_pdf
from tests.monitoring.scraping import get
from tests.system import scan
from tests.waiting import eventually


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


def served(port):
    return {"MUNIMENT_METRICS__PORT": str(port), "MUNIMENT_METRICS__EVERY": "PT0.01S"}


def handed_in(system, path, *, label, port, metrics):
    """Hand a file in by a server of the API, ask it all about that, and return the job and its text."""
    ports = {"MUNIMENT_API__PORT": str(port), "MUNIMENT_API__ADMIN_PORT": "0"}
    system.spawn("api", "pipeline.api.server", **ports, **served(metrics))
    get(port, "/healthz")
    key = PostgresApiKeys(system.rows.engine).create(
        KeyGrant(tenant="museum", name="marker of a key", scopes=frozenset({Scope.SUBMIT, Scope.READ}))
    )
    client = Client(f"http://127.0.0.1:{port}", key.token)
    job_id = client.submit(path, JobFields(label=label)).id
    client.wait(job_id, within=timedelta(seconds=120))
    with client.result(job_id, OutputFormat.TEXT) as pieces:
        text = b"".join(pieces).decode()
    assert [job.label for job in client.jobs(label=label)] == [label]
    assert client.batch(label).label == label
    return job_id, text


def test_nothing_of_a_document_passes_the_broker_or_stands_in_a_log_or_is_counted_by(system, flower, tmp_path):
    system.environment["MUNIMENT_LOG__LEVEL"] = "DEBUG"
    picker = PortPicker(system.folder)
    *ports, port = [picker.pick() for _ in range(6)]
    system.spawn_dispatcher(0, **served(ports[0]))
    system.spawn_io(0, **served(ports[1]))
    system.spawn_slot(0, **served(ports[2]))
    system.spawn("metrics", "pipeline.monitoring.exporter", **served(ports[3]))
    words = "the quick brown marker jumps over the lazy text of this page and stays there"
    path = text_pdf(tmp_path, [words, words], name="marker-in-the-file-name.pdf")
    job_id, text = handed_in(system, path, label="marker in the label", port=port, metrics=ports[4])
    assert words in text
    eventually(lambda: len(json.loads(flower("/api/tasks"))) >= 5)

    logs = {log.name: log.read_text() for log in tmp_path.glob("*.log")}
    assert {"api.log", "cpu0.log", "dispatcher0.log", "io0.log"} <= set(logs)
    metrics = {port: get(port)[1] for port in ports}
    seen = {"flower": flower("/api/tasks"), **logs, **metrics}
    assert str(job_id) in seen["flower"]
    assert str(job_id) in logs["io0.log"]
    assert "/v1/jobs/{job_id}" in metrics[ports[4]]
    assert "/v1/batches/{label}" in logs["api.log"]
    assert [where for where, said in seen.items() if "marker" in said] == []
