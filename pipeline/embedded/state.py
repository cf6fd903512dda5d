"""What a running stack writes down for others: `HOME/state.json`, mode 0600, there only while a supervisor lives."""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pipeline.embedded.files import write_private_json
from pipeline.embedded.liveness import ProcessIdentity, is_alive

VERSION = 2


class Phase(StrEnum):
    """Where a stack is in its life."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


class ProcessState(StrEnum):
    """Where one of its processes is."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    """It died; the next start is due after a pause."""
    DOWN = "down"
    """It died too often and is not started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """One supervised process."""

    state: ProcessState
    identity: ProcessIdentity | None
    restarts: int = 0
    last_exit: int | None = None
    """Exit status of the run before this one, negative for a signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowerAccess:
    """Where Flower answers, and to whom."""

    url: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAccess:
    """Where the HTTP API answers, and the key of whoever owns this home."""

    url: str
    admin_url: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """The whole file."""

    phase: Phase
    while_attached: bool
    """Whether it ends with the last process that is attached to it, or only when told to."""
    supervisor: ProcessIdentity
    settings: dict[str, Any] = field(repr=False)
    """In the shape of `pipeline.settings.Settings`; empty until the servers are ready."""
    api: ApiAccess | None
    flower: FlowerAccess | None
    processes: dict[str, ProcessReport]

    @property
    def is_ready(self) -> bool:
        """Whether work can be handed in."""
        return self.phase is Phase.READY


def state_path(home: Path) -> Path:
    """Return where the state of a home is written."""
    return home / "state.json"


def write_state(home: Path, state: StackState) -> None:
    """Replace the state file in one step."""
    write_private_json(
        state_path(home),
        {
            "version": VERSION,
            "phase": state.phase,
            "while_attached": state.while_attached,
            "supervisor_pid": state.supervisor.pid,
            "supervisor_started": state.supervisor.started,
            "settings": state.settings,
            "api": asdict(state.api) if state.api else None,
            "flower": asdict(state.flower) if state.flower else None,
            "processes": {name: _report_as_json(report) for name, report in state.processes.items()},
        },
    )


def read_state(home: Path) -> StackState | None:
    """Return the state of the stack that lives here; None where none does, whatever a dead one left behind."""
    state = read_state_of_any_age(home)
    return state if state is not None and is_alive(state.supervisor) else None


def read_state_of_any_age(home: Path) -> StackState | None:
    """Return what the last supervisor wrote down, dead or alive; None where that can't be read."""
    try:
        content = json.loads(state_path(home).read_text())
        return _from_json(content) if content["version"] == VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_state(home: Path) -> None:
    """Remove the state file, as the last act of a supervisor or the first of the next one."""
    state_path(home).unlink(missing_ok=True)


def _report_as_json(report: ProcessReport) -> dict[str, Any]:
    identity = report.identity
    return {
        "state": report.state,
        "pid": identity.pid if identity else None,
        "started": identity.started if identity else None,
        "restarts": report.restarts,
        "last_exit": report.last_exit,
    }


def _report_from_json(content: dict[str, Any]) -> ProcessReport:
    known = content["pid"] is not None
    return ProcessReport(
        state=ProcessState(content["state"]),
        identity=ProcessIdentity(pid=content["pid"], started=content["started"]) if known else None,
        restarts=content["restarts"],
        last_exit=content["last_exit"],
    )


def _from_json(content: dict[str, Any]) -> StackState:
    return StackState(
        phase=Phase(content["phase"]),
        while_attached=content["while_attached"],
        supervisor=ProcessIdentity(pid=content["supervisor_pid"], started=content["supervisor_started"]),
        settings=content["settings"],
        api=ApiAccess(**content["api"]) if content["api"] else None,
        flower=FlowerAccess(**content["flower"]) if content["flower"] else None,
        processes={name: _report_from_json(report) for name, report in content["processes"].items()},
    )
