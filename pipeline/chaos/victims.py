"""Finds the processes of a drill's stack, from what its supervisor wrote down and from the kernel's list."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.embedded.composition import dispatcher_name
from pipeline.embedded.liveness import ProcessIdentity, identify
from pipeline.embedded.state import read_state


class VictimAbsent(Exception):
    """What a fault is to hit is not there now: it is being started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    pid: int
    parent: int
    command: tuple[str, ...]


class Victims:
    """The processes of one stack, found anew at each call. All raise VictimAbsent."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def named(self, name: str) -> ProcessIdentity:
        """Return a process that the supervisor of the stack started, under its name there."""
        state = read_state(self._home)
        report = state.processes.get(name) if state else None
        if report is None or report.identity is None:
            raise VictimAbsent(name)
        return _present(report.identity.pid, name)

    def dispatcher(self, number: int) -> ProcessIdentity:
        """Return a dispatcher, counted from 0."""
        return self.named(dispatcher_name(number))

    def worker(self, slot: int) -> ProcessIdentity:
        """Return the Celery worker of a slot: the parent of its pool."""
        launcher = self.named("launcher").pid
        return _only(f"worker of slot {slot}", _children(launcher, "--device", f"cpu:{slot}"))

    def child(self, slot: int) -> ProcessIdentity:
        """Return the Celery child of a slot, which watches over its runner."""
        return _only(f"child of slot {slot}", _children(self.worker(slot).pid, "workers.worker"))

    def runner(self, slot: int) -> ProcessIdentity:
        """Return the process of a slot that reads pages."""
        return _only(f"runner of slot {slot}", _children(self.child(slot).pid, "workers.runner"))

    def io_processes(self) -> list[ProcessIdentity]:
        """Return the io worker's parent and its children."""
        parent = self.named("io")
        return [parent, *(_present(seen.pid, "io") for seen in _children(parent.pid, "workers.worker"))]


def _children(parent: int, *words: str) -> list[_Seen]:
    return [seen for seen in _processes() if seen.parent == parent and set(words) <= set(seen.command)]


def _processes() -> Iterator[_Seen]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            parent = int(stat[stat.rindex(")") + 2 :].split()[1])
            yield _Seen(pid=int(folder.name), parent=parent, command=tuple(command))


def _only(what: str, found: list[_Seen]) -> ProcessIdentity:
    if len(found) != 1:
        raise VictimAbsent(what)
    return _present(found[0].pid, what)


def _present(pid: int, what: str) -> ProcessIdentity:
    identity = identify(pid)
    if identity is None:
        raise VictimAbsent(what)
    return identity
