"""Read by every Python process that has this folder on its path: kills or stops it at a named point, shifts its clock.

`FAULT_POINTS` is JSON, a list of points: `program`, the module that the process runs; `at`, a method by its full name;
`when`, before or after it; `signal`, what the process sends itself; `mark`, a file that is made when that happens, so
that it happens once. `FAULT_CLOCK_S` is added to the time of day.
"""

import datetime as dt
import functools
import importlib
import json
import os
import sys
import time
from pathlib import Path


def strike(point):
    try:
        Path(point["mark"]).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), point["signal"])


def put_in(point):
    owner_name, _, method_name = point["at"].rpartition(".")
    module_name, _, class_name = owner_name.rpartition(".")
    owner = getattr(importlib.import_module(module_name), class_name)
    method = getattr(owner, method_name)

    @functools.wraps(method)
    def struck(*arguments, **named):
        if point["when"] == "before":
            strike(point)
        result = method(*arguments, **named)
        if point["when"] == "after":
            strike(point)
        return result

    setattr(owner, method_name, struck)


def shift_clock(seconds):
    tell, tell_ns = time.time, time.time_ns
    time.time = lambda: tell() + seconds
    time.time_ns = lambda: tell_ns() + int(seconds * 1e9)

    class Shifted(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls):
            return cls.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)

    dt.datetime = Shifted


if shift := os.environ.get("FAULT_CLOCK_S"):
    shift_clock(float(shift))
for told in json.loads(os.environ.get("FAULT_POINTS", "[]")):
    if told["program"] in sys.orig_argv:
        put_in(told)
