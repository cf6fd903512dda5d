"""`muniment run` as its user sees it: a stack of its own, results on disk, one JSON object a document, nothing left."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import urllib3

from pipeline.embedded.state import read_state
from pipeline.engines.plugins import absent
from tests.pages import SAMPLE
from tests.system import QUICK, ROOT, scan
from tests.waiting import eventually


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def environment(home):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MUNIMENT_")}
    return kept | QUICK | {"MUNIMENT_HOME": str(home), "MUNIMENT_CONFIG": os.devnull}


def muniment(environment, *arguments, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *map(str, arguments)],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def processes_of(home):
    """Return the command lines of all processes that name this home, in their arguments or their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if str(home).encode() in command + (folder / "environ").read_bytes():
                found.append(command.replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_a_folder_of_documents_good_and_bad(environment, home, tmp_path):
    box = tmp_path / "box"
    (box / "inner").mkdir(parents=True)
    scan(box, 3, name="letter.pdf")
    scan(box / "inner", 2, name="letter.pdf")
    (box / "notes.pdf").write_text("not a PDF")
    (box / ".hidden").write_text("nobody asked")
    out = tmp_path / "out"

    ended = muniment(environment, "run", box, "--out", out, "--json", cwd=tmp_path)

    assert ended.returncode == 4, ended.stderr
    results = {result["source"]: result for result in map(json.loads, ended.stdout.splitlines())}
    assert set(results) == {str(box / "letter.pdf"), str(box / "inner" / "letter.pdf"), str(box / "notes.pdf")}
    good, bad = results[str(box / "letter.pdf")], results[str(box / "notes.pdf")]
    assert set(good) == {"job_id", "source", "state", "page_count", "outcomes", "outputs", "error", "seconds"}
    assert (good["state"], good["page_count"], good["outcomes"]) == ("succeeded", 3, {"recognised": 3})
    assert good["error"] is None
    assert {Path(path).name for path in good["outputs"].values()} == {"document.json", "document.md", "document.txt"}
    assert Path(good["outputs"]["text"]).read_text() == "page 1\n\fpage 2\n\fpage 3\n"
    assert (bad["state"], bad["error"]["code"], bad["outputs"]) == ("rejected", "not_a_document", {})
    assert {folder.name for folder in out.iterdir()} == {"letter.pdf", "letter.pdf-2"}
    assert read_state(home) is None
    eventually(lambda: processes_of(home) == [])


@pytest.mark.skipif(bool(absent("torch", "transformers", "onnx")), reason="the extra `torch` is not installed")
def test_the_engine_in_torch_reads_the_text_that_the_default_engine_reads(environment, tmp_path):
    environment["MUNIMENT_DEVICES__CPU_SLOTS"] = "1"
    # With the tiny networks, where they are installed, one comma is read as a full stop.
    environment["MUNIMENT_DEVICES__ENGINE_OPTIONS__RAPIDOCR__SKIM"] = "false"
    texts = {}
    for engine in ("rapidocr", "ppocr-torch"):
        ended = muniment(environment, "run", SAMPLE, "--engine", engine, "--out", tmp_path / engine, "--json")
        assert ended.returncode == 0, ended.stderr
        outputs = json.loads(ended.stdout)["outputs"]
        pages = json.loads(Path(outputs["json"]).read_text())["pages"]
        assert {page["engine"]["name"] for page in pages} == {engine}
        texts[engine] = Path(outputs["text"]).read_text()
    assert texts["ppocr-torch"] == texts["rapidocr"]
    assert len(texts["rapidocr"].split()) > 50


def test_ctrl_c_cancels_the_jobs_and_leaves_nothing_running(environment, home, tmp_path):
    environment["MUNIMENT_SIMULATED"] = json.dumps({"page_ms": 2000})
    path = scan(tmp_path, 40)
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline.cli", "run", str(path), "--out", str(tmp_path / "out")],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # What runs tests in the background may have had them ignore it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - forked from the main thread
    )
    log = home / "logs" / "worker-cpu0.log"
    # A task that was received, not its name in the list of those that are known; it may come before "ready".
    eventually(lambda: log.exists() and "muniment.recognise[" in log.read_text(), within=120)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"cancelled" in said
    assert read_state(home) is None
    eventually(lambda: processes_of(home) == [])
    # The rows outlive the stack; the next one shows them.
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["run", "no-such-file"], ["run", "--lane", "tpu", "x"], ["nonsense"]]
)
def test_wrong_usage_is_said_at_once(environment, home, arguments):
    ended = muniment(environment, *arguments)
    assert ended.returncode == 2
    assert ended.stderr
    assert not home.exists()


def assert_served_over_http(environment, path, status):
    """Submit, watch and fetch with nothing but the key that the stack made."""
    key = muniment(environment, "keys", "show").stdout.strip()
    headers = {"Authorization": f"Bearer {key}"}
    assert key not in json.dumps(status)
    url = status["api"]["url"]
    entered = urllib3.request("POST", f"{url}/v1/jobs?name=scan.pdf", headers=headers, body=path.read_bytes())
    assert entered.status == 201, entered.data
    job = url + entered.headers["Location"]
    events = urllib3.request("GET", f"{job}/events", headers=headers, timeout=60).data.decode()
    assert '"kind": "job.succeeded"' in events
    assert urllib3.request("GET", f"{job}/result?format=text", headers=headers).data == b"page 1\n\x0cpage 2\n"
    assert urllib3.request("GET", f"{job}/pages/2?format=text", headers=headers).data == b"page 2"
    image = urllib3.request("GET", f"{job}/pages/2?format=image&dpi=72", headers=headers)
    assert image.data.startswith(b"\x89PNG"), image.data
    assert urllib3.request("GET", f"{job}/pages/2?format=image&dpi=72", headers=headers).data == image.data
    assert urllib3.request("DELETE", job, headers=headers).status == 204
    assert urllib3.request("GET", job, headers=headers).status == 404


def test_a_stack_that_is_up_is_shared_and_watched_from_other_commands(environment, home, tmp_path):
    up = muniment(environment, "up", "--detach", "--no-flower", "--cpu-slots", "1")
    assert up.returncode == 0, up.stderr
    try:
        path = scan(tmp_path, 2)
        ran = muniment(environment, "run", path, "--out", tmp_path / "out")
        assert ran.returncode == 0, ran.stderr
        assert "scan.pdf: succeeded (2 recognised)" in ran.stdout
        assert "starting" not in ran.stderr

        job_id = muniment(environment, "submit", path, "--format", "text").stdout.strip()
        eventually(lambda: "succeeded" in muniment(environment, "show", job_id).stdout, within=60)
        assert muniment(environment, "result", job_id, "--format", "text").stdout == "page 1\n\fpage 2\n"
        assert "has no output json" in muniment(environment, "result", job_id, "--format", "json").stderr
        shown = json.loads(muniment(environment, "show", job_id, "--json").stdout)
        assert shown["events"][0]["kind"] == "job.submitted"
        assert shown["events"][-1]["kind"] == "job.succeeded"
        assert muniment(environment, "cancel", job_id).returncode == 1
        assert len(muniment(environment, "jobs").stdout.splitlines()) == 2
        status = json.loads(muniment(environment, "status", "--json").stdout)
        assert status["running"] is True
        assert status["settings"] is None
        assert [device["engine"] for device in status["devices"]] == ["simulated"]
        assert_served_over_http(environment, path, status)
        doctor = muniment(environment, "doctor")
        assert doctor.returncode == 0, doctor.stdout
        assert "already" not in muniment(environment, "db", "upgrade").stdout
    finally:
        down = muniment(environment, "down")
    assert down.returncode == 0
    eventually(lambda: processes_of(home) == [])
    assert muniment(environment, "status").returncode == 1
    assert "nothing runs" in muniment(environment, "jobs").stderr
