"""Logs say what went wrong and never what stood on a page."""

import subprocess
import sys

import pytest

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
