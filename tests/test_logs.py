"""Logs say what went wrong and never what stood on a page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SCRIPT = """
import structlog
from pipeline.logs import configure_logs
from pipeline.settings import LogSettings

configure_logs(LogSettings(json_lines={json_lines}), worker="cpu0")

def read(text):
    raise RuntimeError("the reader broke")

try:
    read("text of a page")
except RuntimeError:
    structlog.get_logger().exception("chunk_broke", chunk_id="c1")
"""


@pytest.mark.parametrize("json_lines", [True, False])
def test_a_traceback_shows_code_and_no_values(json_lines):
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(json_lines=json_lines)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == ""
    assert "the reader broke" in ran.stderr
    assert "chunk_broke" in ran.stderr
    assert "cpu0" in ran.stderr
    assert "text of a page" not in ran.stderr


LEVELS = """
import logging
import structlog
from pipeline.logs import configure_logs
from pipeline.settings import LogSettings

counted = []
levels = {"pipeline.steps": "DEBUG", "pipeline.steps.admit": "ERROR"}
settings = LogSettings(level="WARNING", levels=levels, json_lines=True)
configure_logs(settings, count=lambda level, line: counted.append((level, line["event"])), worker="cpu0")

def say(file):
    code = "log.debug('debug_line'); log.info('info_line'); log.warning('warning_line', module=file)"
    exec(compile(code, file, "exec"), {"log": structlog.get_logger(), "file": file})

for name in ("sweep", "admit"):
    say(f"FOLDER/pipeline/steps/{name}.py")
say("FOLDER/workers/child.py")
with structlog.contextvars.bound_contextvars(job_id="j1"):
    logging.getLogger("celery.worker").warning("a line of %s", "Celery's")
logging.getLogger("celery.worker").info("a line that nobody wants")
logging.getLogger("PIL").info("a line that nobody wants")
print(counted)
"""


def test_levels_are_chosen_by_module_and_what_is_not_shown_is_counted():
    script = LEVELS.replace("FOLDER", str(ROOT))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [(line["event"], Path(line.get("module", "")).stem) for line in lines] == [
        ("debug_line", ""),
        ("info_line", ""),
        ("warning_line", "sweep"),
        ("warning_line", "child"),
        ("a line of Celery's", ""),
    ]
    assert {line["worker"] for line in lines} == {"cpu0"}
    assert (lines[-1]["job_id"], lines[-1]["logger"], lines[-1]["level"]) == ("j1", "celery.worker", "warning")
    assert ran.stdout.strip() == str([("info", "info_line"), ("warning", "warning_line")] * 3)
