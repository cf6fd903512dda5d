"""Does to a running stack what the schedule says."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Self, assert_never

from pipeline.adapters.disruption import Disruption
from pipeline.adapters.evidence import PostgresEvidence
from pipeline.chaos.recovery import Injected
from pipeline.chaos.schedule import Fault, FaultKind
from pipeline.chaos.victims import VictimAbsent, Victims
from pipeline.domain.errors import Transient
from pipeline.embedded.liveness import ProcessIdentity, end
from pipeline.ports.dispatch import DueChunk, DueJob

_COPIES = 3
_PAST = 20
DISPATCHERS = 2


class Echo:
    """The program that sends messages by hand."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "workers.echo"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def send(self, jobs: Iterable[DueJob], chunks: Iterable[DueChunk]) -> None:
        """Send one message for each, sooner or later."""
        for job in jobs:
            self._write({"job_id": str(job.job_id), "step": job.step, "attempt": job.attempt})
        for chunk in chunks:
            ids = {"job_id": str(chunk.job_id), "chunk_id": str(chunk.chunk_id)}
            self._write({**ids, "lane": chunk.lane, "attempt": chunk.attempt})

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, told: dict[str, object]) -> None:
        pipe: IO[str] | None = self._process.stdin
        assert pipe is not None  # noqa: S101 - asked for just above
        pipe.write(json.dumps(told) + "\n")
        pipe.flush()


@dataclass(slots=True, kw_only=True)
class Injectors:
    """The acting hands of one drill."""

    home: Path
    host: str
    slots: int
    lease: timedelta
    victims: Victims
    disruption: Disruption
    evidence: PostgresEvidence
    echo: Echo
    _held: list[tuple[float, ProcessIdentity]] = field(default_factory=list)

    def inject(self, fault: Fault, *, pages: int) -> Injected:
        """Let one fault strike. Raises: VictimAbsent, when it can't be now and is to be tried again."""
        slot = fault.victim % self.slots
        device_id = f"{self.host}/cpu:{slot}" if _hits_device(fault.kind) else None
        try:
            chunk_id = self.evidence.chunk_in_work(device_id) if device_id else None
            at = datetime.now(UTC)
            self._strike(fault, slot)
        except Transient as error:
            raise VictimAbsent(error.message) from error
        return Injected(fault=fault, at=at, pages=pages, device_id=device_id, chunk_id=chunk_id)

    def let_go(self, *, everything: bool = False) -> None:
        """Let stopped processes go on whose time is over, or all."""
        now = time.monotonic()
        for until, process in self._held:
            if everything or until <= now:
                end(process, by=signal.SIGCONT)
        self._held = [] if everything else [held for held in self._held if held[0] > now]

    def _strike(self, fault: Fault, slot: int) -> None:  # noqa: C901, PLR0912 - one line for each kind
        victims, number = self.victims, fault.victim % DISPATCHERS
        match fault.kind:
            case FaultKind.KILL_RUNNER:
                end(victims.runner(slot), by=signal.SIGKILL)
            case FaultKind.KILL_CHILD:
                end(victims.child(slot), by=signal.SIGKILL)
            case FaultKind.KILL_WORKER:
                end(victims.worker(slot), by=signal.SIGKILL)
            case FaultKind.KILL_LAUNCHER:
                end(victims.named("launcher"), by=signal.SIGKILL)
            case FaultKind.KILL_IO:
                processes = victims.io_processes()
                end(processes[fault.victim % len(processes)], by=signal.SIGKILL)
            case FaultKind.KILL_DISPATCHER:
                end(victims.dispatcher(number), by=signal.SIGKILL)
            case FaultKind.DRAIN_WORKER:
                end(victims.worker(slot), by=signal.SIGTERM)
            case FaultKind.STOP_RUNNER:
                self._hold(fault, victims.runner(slot))
            case FaultKind.STOP_WORKER:
                self._hold(fault, victims.child(slot), victims.worker(slot))
            case FaultKind.STOP_DISPATCHER:
                self._hold(fault, victims.dispatcher(number))
            case FaultKind.STOP_BROKER:
                self._hold(fault, victims.named("valkey"))
            case FaultKind.FLUSH_BROKER:
                self.disruption.flush_broker()
            case FaultKind.CUT_BROKER:
                self.disruption.cut_broker()
            case FaultKind.CRASH_BROKER:
                end(victims.named("valkey"), by=signal.SIGKILL)
            case FaultKind.EMPTY_BROKER:
                self._empty_broker()
            case FaultKind.CUT_DATABASE:
                self.disruption.cut_database()
            case FaultKind.RESTART_DATABASE:
                # Fast shutdown, as `pg_ctl restart` asks for.
                end(victims.named("postgres"), by=signal.SIGINT)
            case FaultKind.CRASH_DATABASE:
                end(victims.named("postgres"), by=signal.SIGKILL)
            case FaultKind.RESTART_STORE:
                end(victims.named("seaweed"), by=signal.SIGTERM)
            case FaultKind.CRASH_STORE:
                end(victims.named("seaweed"), by=signal.SIGKILL)
            case FaultKind.DUPLICATE_MESSAGES:
                jobs, chunks = self.evidence.awaited()
                self.echo.send(jobs * _COPIES, chunks * _COPIES)
            case FaultKind.LATE_MESSAGES:
                self.echo.send(*self.evidence.past(_PAST))
            case _:
                assert_never(fault.kind)

    def _hold(self, fault: Fault, *processes: ProcessIdentity) -> None:
        until = time.monotonic() + fault.hold_leases * self.lease.total_seconds()
        for process in processes:
            end(process, by=signal.SIGSTOP)
            self._held.append((until, process))

    def _empty_broker(self) -> None:
        broker = self.victims.named("valkey")
        self.disruption.stop_persistence()
        shutil.rmtree(self.home / "valkey" / "appendonlydir", ignore_errors=True)
        end(broker, by=signal.SIGKILL)


def _hits_device(kind: FaultKind) -> bool:
    match kind:
        case (
            FaultKind.KILL_RUNNER
            | FaultKind.KILL_CHILD
            | FaultKind.KILL_WORKER
            | FaultKind.STOP_RUNNER
            | FaultKind.STOP_WORKER
            | FaultKind.DRAIN_WORKER
        ):
            return True
        case _:
            return False
