"""Runs a drill: hands documents in, lets faults strike as pages are finished, waits for the end, collects evidence."""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.adapters.database import connect
from pipeline.adapters.disruption import Disruption
from pipeline.adapters.evidence import PostgresEvidence
from pipeline.adapters.objects import S3Objects
from pipeline.adapters.submissions import PostgresSubmissions
from pipeline.chaos.gate import Gate
from pipeline.chaos.handing_in import HandingIn
from pipeline.chaos.injectors import DISPATCHERS, Echo, Injectors
from pipeline.chaos.record import Record, patiently, readings, results
from pipeline.chaos.recovery import Injected, Sample
from pipeline.chaos.schedule import Fault, Schedule
from pipeline.chaos.surroundings import CHUNK_LEASE, environment, gate, journal
from pipeline.chaos.victims import VictimAbsent, Victims
from pipeline.domain.errors import Transient
from pipeline.embedded.errors import StackError
from pipeline.embedded.serving import StackOptions
from pipeline.embedded.stack import read_state, share
from pipeline.ports.evidence import Progress
from pipeline.settings import read_settings

_POLL_S = 0.1
"""How exactly a recovery by the next page is seen."""
STANDSTILL = timedelta(minutes=3)
"""Without a move of any row for so long, whatever has not ended is stuck. The longest pause between tries is 60 s."""
ABSENT = timedelta(minutes=3)
"""A victim that does not come back for so long counts as stuck, and the next fault is due."""


def run(schedule: Schedule, home: Path, *, slots: int, say: Callable[[str], None]) -> Record:
    """Run a drill on a stack of its own in this home; nothing of it runs afterwards.

    Raises: StackError, when the stack can't be started or a stack runs there already.
    """
    if read_state(home) is not None:
        raise StackError(f"a stack runs in {home}: a drill needs a home of its own")
    with environment(home, slots=slots):
        say("starting a stack for the drill ...")
        handle = share(home, StackOptions(cpu_slots=slots, dispatchers=DISPATCHERS))
        try:
            return _drilled(schedule, home, slots=slots, say=say)
        finally:
            handle.stop()


def _drilled(schedule: Schedule, home: Path, *, slots: int, say: Callable[[str], None]) -> Record:
    settings = read_settings()
    if settings.database.url is None or settings.broker.url is None:
        raise StackError(f"the stack in {home} names no servers; see {home}/logs")
    engine = connect(settings.database.url.get_secret_value(), actor="muniment chaos")
    objects, evidence = S3Objects(settings.objects), PostgresEvidence(engine)
    started = time.monotonic()
    handing_in = HandingIn(schedule.documents, PostgresSubmissions(engine), objects, evidence)
    try:
        with Echo() as echo:
            injectors = Injectors(
                home=home,
                host=socket.gethostname(),
                slots=slots,
                lease=CHUNK_LEASE,
                victims=Victims(home),
                disruption=Disruption(settings.broker.url.get_secret_value(), engine),
                evidence=evidence,
                echo=echo,
            )
            drill = _Drill(
                schedule=schedule,
                evidence=evidence,
                injectors=injectors,
                handing_in=handing_in,
                gate=Gate(gate(home)),
                say=say,
            )
            with handing_in:
                drill.run()
        rows = patiently(evidence.rows)
        return Record(
            injected=tuple(drill.injected),
            left_out=tuple(drill.left_out),
            absent=tuple(drill.absent),
            samples=tuple(drill.samples),
            rows=rows,
            results=results(objects, rows.jobs),
            readings=tuple(readings(journal(home))),
            took=timedelta(seconds=time.monotonic() - started),
        )
    finally:
        engine.dispose()


@dataclass(slots=True, kw_only=True)
class _Drill:
    """The loop of a drill."""

    schedule: Schedule
    evidence: PostgresEvidence
    injectors: Injectors
    handing_in: HandingIn
    gate: Gate
    say: Callable[[str], None]
    injected: list[Injected] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    _moves: int = -1
    _moved: float = field(default_factory=time.monotonic)
    _due_since: float | None = None

    def run(self) -> None:
        """Go on until all documents have ended, or nothing has moved for too long."""
        waiting = list(reversed(self.schedule.faults))
        try:
            while time.monotonic() - self._moved < STANDSTILL.total_seconds():
                self.injectors.let_go()
                # Asked first: a document that is handed in between would not be seen.
                all_there = self.handing_in.is_over
                if seen := self._look():
                    if all_there and not seen.jobs_open:
                        break
                    self._let_strike(waiting, seen)
                time.sleep(_POLL_S)
        finally:
            self.gate.open()
            self.injectors.let_go(everything=True)
        self.left_out += [str(fault.kind) for fault in reversed(waiting)]

    def _let_strike(self, waiting: list[Fault], seen: Progress) -> None:
        """Take the next fault off the list if it is due and can strike; else nothing runs on without it."""
        if not waiting or not self._is_due(waiting[-1], seen):
            self.gate.open()
        elif self._strike(waiting[-1], seen):
            waiting.pop()
        else:
            self.gate.hold()

    def _look(self) -> Progress | None:
        """Return how far the work is; None while the database is away."""
        try:
            seen = self.evidence.progress()
        except Transient:
            return None
        self.samples.append(Sample(at=datetime.now(UTC), pages=seen.pages))
        if seen.moves != self._moves:
            self._moves, self._moved = seen.moves, time.monotonic()
        return seen

    def _is_due(self, fault: Fault, seen: Progress) -> bool:
        before = self.injected[-1].pages if self.injected else -1
        return seen.pages >= fault.after_pages and seen.pages > before

    def _strike(self, fault: Fault, seen: Progress) -> bool:
        """Let a due fault strike; say whether it is over with, one way or the other."""
        self._due_since = self._due_since or time.monotonic()
        try:
            self.injected.append(self.injectors.inject(fault, pages=seen.pages))
        except VictimAbsent as absent:
            if time.monotonic() - self._due_since < ABSENT.total_seconds():
                return False
            self.absent.append(f"{absent} was not there for {ABSENT.total_seconds():g} s, for {fault.kind}")
        self._due_since = None
        number = len(self.injected) + len(self.absent)
        self.say(f"{seen.pages}/{self.schedule.page_count} pages: fault {number} {fault.kind}")
        return True
