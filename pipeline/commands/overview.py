"""What `status` shows: the processes of the stack, and the rows that say what waits and who works."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select

from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Chunk, Device, Job
from pipeline.commands.access import Access
from pipeline.domain.errors import PipelineError
from pipeline.embedded.state import StackState, read_state
from pipeline.settings import SettingsError, default_home, read_settings


@dataclass(slots=True, kw_only=True)
class Overview:
    """All of it."""

    stack: StackState | None
    secrets: bool
    jobs: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, int] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None

    @property
    def runs(self) -> bool:
        """Whether a stack of this home runs, or the servers that the settings name answer."""
        return self.stack is not None or self.problem is None

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "home": str(default_home()),
            "running": self.runs,
            "processes": self._processes(),
            "api": self._api(),
            "flower": self._flower(),
            "settings": self.stack.settings if self.stack and self.secrets else None,
            "jobs": self.jobs,
            "chunks": self.chunks,
            "devices": self.devices,
            "problem": self.problem,
        }

    def as_text(self) -> str:
        """Return it for people."""
        lines = [f"home     {default_home()}"]
        if self.stack is None:
            lines.append("stack    not running here")
        for name, process in self._processes().items():
            restarts = f", {process['restarts']} restarts" if process["restarts"] else ""
            lines.append(f"process  {name:12} {process['state']}{restarts}")
        if api := self._api():
            lines.append(f"api      {api['url']}, for administrators {api['admin_url']}")
        if flower := self._flower():
            password = f" password {flower['password']}" if self.secrets else ""
            lines.append(f"flower   {flower['url']} user {flower['user']}{password}")
        if self.stack and self.secrets:
            servers = self.stack.settings
            lines += [f"database {servers['database']['url']}", f"broker   {servers['broker']['url']}"]
            lines.append(f"store    http://{servers['objects']['endpoint']} bucket {servers['objects']['bucket']}")
        lines += [f"jobs     {state:12} {count}" for state, count in self.jobs.items()]
        lines += [f"chunks   {state:12} {count}" for state, count in self.chunks.items()]
        for device in self.devices:
            state = device["state"] if device["live"] else "gone"
            lines.append(f"device   {device['id']} {state}, {device['engine'] or 'no engine yet'}")
        if self.problem:
            lines.append(f"problem  {self.problem}")
        return "\n".join(lines)

    def _processes(self) -> dict[str, dict[str, Any]]:
        if self.stack is None:
            return {}
        return {
            name: {
                "state": report.state.value,
                "pid": report.identity.pid if report.identity else None,
                "restarts": report.restarts,
            }
            for name, report in self.stack.processes.items()
        }

    def _api(self) -> dict[str, str] | None:
        if self.stack is None or self.stack.api is None:
            return None
        api = self.stack.api
        addresses = {"url": api.url, "admin_url": api.admin_url}
        return addresses | ({"key": api.key} if self.secrets else {})

    def _flower(self) -> dict[str, str] | None:
        if self.stack is None or self.stack.flower is None:
            return None
        flower = self.stack.flower
        return {"url": flower.url, "user": flower.user} | ({"password": flower.password} if self.secrets else {})


def overview(*, secrets: bool) -> Overview:
    """Look around; what can't be reached is said, not raised."""
    seen = Overview(stack=read_state(default_home()), secrets=secrets)
    try:
        _count(Access(read_settings()), seen)
    except (PipelineError, SettingsError) as error:
        seen.problem = str(error)
    return seen


def _count(access: Access, seen: Overview) -> None:
    try:
        with transaction(access.engine) as connection:
            for state, count in connection.execute(select(Job.state, func.count()).group_by(Job.state)):
                seen.jobs[state] = count
            for state, count in connection.execute(select(Chunk.state, func.count()).group_by(Chunk.state)):
                seen.chunks[state] = count
            now = datetime.now(UTC)
            for row in connection.execute(select(Device).order_by(Device.id)):
                seen.devices.append(
                    {
                        "id": row.id,
                        "kind": row.kind,
                        "state": row.state,
                        "live": row.lease_until is not None and row.lease_until > now,
                        "engine": row.engine,
                        "revision": row.revision,
                        "baseline_bytes": row.baseline_bytes,
                    }
                )
    finally:
        access.engine.dispose()
