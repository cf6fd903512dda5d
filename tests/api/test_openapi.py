"""The OpenAPI document, asked by a fuzzer with all its checks: every answer is one that the document describes.

Bounded: the same few hundred requests each time, good ones and bad ones, made from the document alone.
"""

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.system import ROOT

FUZZER = Path(sysconfig.get_path("scripts")) / "schemathesis"
HERE = Path(__file__).parent


@pytest.mark.timeout(600)
@pytest.mark.parametrize("admin_port", [False, True], ids=["callers", "administrators"])
def test_a_fuzzer_finds_nothing(api, tenant, tmp_path, admin_port):
    caller = api.caller(tenant=tenant, requests_per_minute=1_000_000, admin_port=admin_port)
    job_id = api.ended(tenant=tenant, label="box-17", callback_url="https://museum.test/")
    [delivery] = api.rows.sql("SELECT id FROM delivery WHERE job_id = :id", id=job_id)
    there = {"job_id": str(job_id), "delivery_id": str(delivery.id), "label": "box-17", "number": 1}
    for name in ("schemathesis.toml", "fuzzing_hooks.py"):
        shutil.copy(HERE / name, tmp_path)
    arguments = ["--checks=all", "--phases=examples,coverage,fuzzing", "--max-examples=1", "--seed=1", "--no-color"]
    ended = subprocess.run(
        [FUZZER, "run", f"{caller.url}/openapi.json", "-H", f"Authorization: Bearer {caller.token}", *arguments],
        cwd=tmp_path,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "fuzzing_hooks",
            "FUZZED": json.dumps(there),
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        },
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-12_000:] + ended.stderr[-2_000:]
    assert "status=500" not in api.log()
