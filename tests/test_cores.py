"""Processes keep to cores and off them."""

import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from pipeline.cores import check_to_be_had
from pipeline.settings import DeviceSettings, SettingsError
from workers.launcher import devices_to_serve

MINE = sorted(os.sched_getaffinity(0))
NOWHERE = 8191
"""Above what kernels are built for."""
KEEP = """
import os, sys
from pipeline.cores import keep_off, keep_to
from pipeline.settings import SettingsError
try:
    if sys.argv[1] == "to":
        keep_to(int(sys.argv[2]))
    else:
        keep_off({int(core) for core in sys.argv[2:]})
except SettingsError as error:
    sys.exit(str(error))
print(*sorted(os.sched_getaffinity(0)))
"""


def keep(*arguments):
    return subprocess.run(
        [sys.executable, "-c", KEEP, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_a_process_keeps_to_a_core():
    assert keep("to", MINE[-1]).stdout.split() == [str(MINE[-1])]


def test_a_core_that_there_is_not_is_named():
    assert f"core {NOWHERE} can't be had" in keep("to", NOWHERE).stderr


@pytest.mark.skipif(len(MINE) == 1, reason="this machine has one core")
def test_a_process_keeps_off_cores():
    assert keep("off", MINE[0], NOWHERE).stdout.split() == [str(core) for core in MINE[1:]]


def test_some_core_is_left():
    assert "leaves no core" in keep("off", *MINE).stderr


def test_to_try_changes_nothing():
    with pytest.raises(SettingsError, match=str(NOWHERE)):
        check_to_be_had((MINE[0], NOWHERE))
    assert sorted(os.sched_getaffinity(0)) == MINE


def test_each_core_that_is_named_gets_a_slot():
    served = devices_to_serve(DeviceSettings(cpu_cores=(5, 3)), {}, None)
    assert [device.name for device in served] == ["cpu:0", "cpu:1"]


@pytest.mark.parametrize("wrong", [{"cpu_cores": (1, 1)}, {"cpu_cores": (0, 1), "cpu_slots": 1}, {"cpu_cores": (-1,)}])
def test_cores_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        DeviceSettings(**wrong)
