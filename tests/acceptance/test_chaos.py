"""`muniment chaos` as an operator sees it: a short drill with real processes, judged clean, with nothing left of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.chaos.schedule import draw
from pipeline.embedded.liveness import identify
from pipeline.embedded.state import read_state

ROOT = Path(__file__).resolve().parents[2]
SERVERS_AND_WORKERS = 39
"""A seed that crashes or restarts each of the three servers, and kills a worker and a dispatcher."""


def chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline.cli", "chaos", *arguments]
    # What a system of the user's own is told is not for a drill.
    elsewhere = {"MUNIMENT_DATABASE__URL": "postgresql+psycopg://nobody@127.0.0.1:1/production", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **elsewhere}, capture_output=True, text=True, timeout=550, check=False
    )


def processes_that_know(home: Path) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(home).encode() in told and identify(int(folder.name)):
            found.append(int(folder.name))
    return found


@pytest.mark.timeout(600)
def test_a_short_drill_loses_nothing_and_leaves_nothing_running(tmp_path: Path) -> None:
    home = tmp_path / "drill"
    arguments = ("--documents", "3", "--faults", "6", "--seed", str(SERVERS_AND_WORKERS), "--home", str(home))
    done = chaos(*arguments, "--slots", "1", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [told[name] for name in ("lost_pages", "doubled_pages", "stuck_rows", "overlaps")] == [0, 0, 0, 0]
    drawn = draw(SERVERS_AND_WORKERS, documents=3, faults=6)
    assert told["pages"] == drawn.page_count
    assert sum(felt["struck"] for felt in told["faults"].values()) == 6
    assert set(told["faults"]) == {fault.kind for fault in drawn.faults}
    assert sum(told["jobs"].values()) == 3
    assert read_state(home) is None
    assert processes_that_know(home) == []


def test_a_folder_that_holds_something_is_not_used_for_a_drill(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").touch()
    done = chaos("--home", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty" in done.stderr
