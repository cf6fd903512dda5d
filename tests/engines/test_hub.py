"""Models that are fetched from a hub, from a server that speaks its protocol."""

import json
import os
import subprocess
import sys
import time

import pytest

from pipeline.engines.plugins import absent

if missing := absent("torch", "transformers"):
    pytest.skip(f"{', '.join(missing)} not installed (extra torch)", allow_module_level=True)

from tests.hub import COMMIT, NAME, serving
from tests.page_models import END, built, token
from tests.torch_marks import IN_TORCH
from workers.engines.model_folder import digest_of

pytestmark = IN_TORCH
WEIGHTS = "model.safetensors"
LOADED = """
import json, sys
from pipeline.domain.errors import PipelineError
from pipeline.engines.registry import create
try:
    engine = create("qianfan-ocr", json.loads(sys.argv[1]))
    engine.warm_up()
    print(json.dumps({"revision": engine.identity.revision}))
except PipelineError as error:
    print(json.dumps({"code": error.code, "message": error.message}))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = built("qianfan-ocr", tmp_path_factory.mktemp("hub"), {".": [token("a"), END]})
    (folder / "modeling_own.py").write_text("raise SystemExit('code of a model was run')\n")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    return folder


@pytest.fixture
def load(tmp_path):
    """Load the engine in a process of its own, for the hub's library looks at the environment once."""

    def load(url, **options):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
            "HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DOWNLOAD_TIMEOUT": "1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        told = json.dumps({"model": NAME, "revision": COMMIT, "online": True} | options)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", LOADED, told],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1]) | {"seconds": time.monotonic() - began}

    return load


def test_a_commit_is_fetched_whole_once_and_loaded_without_code_and_pickles(model, load):
    with serving(model) as hub:
        first = load(hub.url)
        assert first["revision"].startswith(f"{NAME}@{COMMIT[:12]}.{digest_of(model)[:12]}-torch-")
        asked = {request.rpartition("/")[2] for request in hub.asked if "/resolve/" in request}
        assert {"config.json", WEIGHTS, "tokenizer.json"} <= asked
        assert not asked & {"modeling_own.py", "pytorch_model.bin"}
        # Nothing else is asked or told, also not by what loads the files.
        others = [request for request in hub.asked if "/resolve/" not in request]
        assert others == [f"GET /api/models/{NAME}/tree/{COMMIT}"]
        hub.asked.clear()
        assert load(hub.url, online=False)["revision"] == first["revision"]
        assert load(hub.url)["revision"] == first["revision"]
        assert hub.asked == []
    # It is there, and so nobody needs to answer.
    assert load(hub.url)["revision"] == first["revision"]


def test_without_leave_nothing_is_asked(model, load):
    with serving(model) as hub:
        told = load(hub.url, online=False)
        assert (told["code"], hub.asked) == ("engine_unavailable", [])
    assert "not in the cache of this host: fetch it there once" in told["message"]


def test_files_that_are_others_than_meant_are_refused(model, load):
    with serving(model) as hub:
        told = load(hub.url, digest="0" * 64)
    assert told["code"] == "engine_unavailable"
    assert f"have the digest {digest_of(model)}, not {'0' * 64}" in told["message"]


def test_a_commit_that_is_not_there_is_said_at_once(model, load):
    with serving(model, missing=True) as hub:
        told = load(hub.url)
    assert told["code"] == "engine_unavailable"
    assert "can't be fetched: RevisionNotFoundError" in told["message"]
    assert told["seconds"] < 60


@pytest.mark.parametrize("name", [WEIGHTS, "tokenizer.json"])
def test_what_was_cut_is_not_taken_for_whole_and_goes_on_later(model, load, name):
    with serving(model, cut=name) as hub:
        told = load(hub.url)
        assert told["code"] == "engine_unavailable"
        assert "can't be fetched" in told["message"]
        hub.asked.clear()
        half = load(hub.url, online=False)
        assert (half["code"], hub.asked) == ("engine_unavailable", [])
        assert "is not whole in the cache of this host: fetch it there once" in half["message"]
        hub.cut = None
        assert digest_of(model)[:12] in load(hub.url)["revision"]


def assert_given_up(told, *, within_s):
    assert told["code"] == "engine_unavailable"
    assert "can't be fetched" in told["message"]
    assert told["seconds"] < within_s


def test_a_server_that_is_gone_is_said_soon(model, load):
    with serving(model) as hub:
        pass
    assert_given_up(load(hub.url), within_s=60)


def test_a_server_that_does_not_answer_is_given_up(model, load):
    with serving(model, silent=True) as hub:
        assert_given_up(load(hub.url), within_s=100)
