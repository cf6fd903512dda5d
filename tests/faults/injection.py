"""Faults inside a process of the product: at a named point, or in its clock; see `injected/sitecustomize.py`."""

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.system import ROOT

_FOLDER = Path(__file__).parent / "injected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a process of this program is struck, once."""

    program: str
    at: str
    when: str
    sends: signal.Signals = signal.SIGKILL

    def mark(self, folder: Path) -> Path:
        """Return the file that is there once it happened."""
        return folder / f"struck-{self.when}-{self.at}"


def struck_at(points: "list[Point]", folder: Path) -> dict[str, str]:
    """Return the environment of processes that are struck at these points."""
    told = [
        {
            "program": point.program,
            "at": point.at,
            "when": point.when,
            "signal": int(point.sends),
            "mark": str(point.mark(folder)),
        }
        for point in points
    ]
    return _injected() | {"FAULT_POINTS": json.dumps(told)}


def with_clock_off_by(minutes: float) -> dict[str, str]:
    """Return the environment of a process that has the time wrong."""
    return _injected() | {"FAULT_CLOCK_S": str(60 * minutes)}


def _injected() -> dict[str, str]:
    paths = (str(_FOLDER), str(ROOT), os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
