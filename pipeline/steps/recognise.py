"""Recognise: claim a chunk for a device, watch its runner read the pages, record them as they come, finish fenced."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import assert_never

import structlog

from pipeline.domain.document import ChunkId
from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove, Transient
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.retry import AttemptLimits, ChunkDecision, GiveUp, Retry, decide
from pipeline.domain.states import AttemptOutcome
from pipeline.ports.chunks import ChunkClaim, ChunkMoves, ClaimedChunk, Hold, KnownPage, Measured, PageEntry
from pipeline.ports.devices import (
    BatchLowered,
    ChunkEnded,
    EngineChanged,
    PageSeen,
    PagesFinished,
    PagesStarted,
    ReadingDevice,
    ReadingFailed,
    Tick,
)
from pipeline.ports.meter import AttemptEnded, Meter, Uncounted

log = structlog.get_logger()
_OUTCOME_OF = {
    # Nothing in the rows said so: this worker is to stop.
    Hold.GO_ON: AttemptOutcome.DRAINED,
    Hold.PAUSE: AttemptOutcome.PAUSED,
    Hold.CANCEL: AttemptOutcome.CANCELLED,
}
_PAUSE_S = 0.5
"""Between two tries to reach a database that is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognise:
    """The step, over its ports."""

    chunks: ChunkMoves
    device: ReadingDevice
    limits: AttemptLimits
    lease: timedelta
    draining: Callable[[], bool]
    jitter: Callable[[], float]
    meter: Meter = field(default_factory=Uncounted)
    sleep: Callable[[float], None] = time.sleep
    other_engine: Callable[[str | None], str | None] = lambda _engine: None
    """Names what reads instead what an engine has no memory for, that of the device where a job names none."""

    def __call__(self, chunk_id: ChunkId, attempt: int) -> None:
        """Read the chunk if it is to be had at this attempt; what becomes of it stands on its row."""
        if self.draining():
            return
        engine_missing: PipelineError | None = None
        try:
            self.device.make_ready()
        except PipelineError as error:
            engine_missing = error
        try:
            chunk = self.chunks.claim(chunk_id, attempt, device_id=self.device.device_id)
        except StaleMove as stale:
            log.info("chunk_not_claimed", chunk_id=str(chunk_id), attempt=attempt, reason=str(stale))
            return
        bound = {
            "job_id": str(chunk.claim.job_id),
            "chunk_id": str(chunk_id),
            "attempt": attempt,
            "device": self.device.device_id,
        }
        with structlog.contextvars.bound_contextvars(**bound):
            _Watch(step=self, chunk=chunk).run(engine_missing)


@dataclass(slots=True, kw_only=True)
class _Watch:
    """One attempt at one chunk."""

    step: Recognise
    chunk: ClaimedChunk
    measured: Measured = field(default_factory=Measured)
    in_work: int | None = None
    """The page that the runner is reading, if it is reading one alone."""
    finished: int = 0
    tokens: int | None = None
    pages: Counter[PageOutcome] = field(default_factory=Counter)
    outcome: AttemptOutcome = AttemptOutcome.LOST
    """What was last written to the rows of how it ended."""
    error_code: ErrorCode | None = None
    asked_to_stop: Hold | None = None
    renewed: float = field(default_factory=time.monotonic)
    looked: float = field(default_factory=time.monotonic)

    @property
    def claim(self) -> ChunkClaim:
        return self.chunk.claim

    def run(self, engine_missing: PipelineError | None) -> None:
        """Read to the end, whichever it is."""
        started = time.monotonic()
        if engine_missing:
            # Claimed all the same, so that the attempt counts: a device that never gets ready must not hold a row.
            self.fail(engine_missing)
        else:
            self._attempt()
        self._tell(time.monotonic() - started)

    def _attempt(self) -> None:
        try:
            self._read()
        except StaleMove as stale:
            # Someone else has the chunk by now; whatever the runner still does, nothing of it is written.
            log.warning("chunk_taken_away", reason=str(stale))
        except ReadingFailed as error:
            self.measured = error.measured
            self.fail(error)
        except PipelineError as error:
            self.fail(error)

    def _tell(self, seconds: float) -> None:
        log.info(
            "chunk_ended",
            outcome=self.outcome,
            error_code=self.error_code,
            pages=self.finished,
            seconds=round(seconds, 2),
            peak_bytes=self.measured.peak_bytes,
            tokens=self.tokens,
        )
        self.step.meter.attempt_ended(
            AttemptEnded(
                job_id=self.claim.job_id,
                chunk_id=self.claim.chunk_id,
                attempt=self.claim.attempt,
                device=self.step.device.device_id.partition("/")[2],
                outcome=self.outcome,
                error_code=self.error_code,
                pages=self.pages,
                seconds=seconds,
                peak_bytes=self.measured.peak_bytes,
                tokens=self.tokens,
            )
        )

    def _read(self) -> None:
        # Closed on the way out, whatever happens: the device then stops its runner and is free for other work.
        with closing(self.step.device.read(self.chunk)) as events:
            for event in events:
                match event:
                    case PagesStarted(numbers=numbers):
                        # Of several, none is more suspect than the others.
                        self.in_work = numbers[0] if len(numbers) == 1 else None
                    case BatchLowered(bound=bound):
                        log.warning("batch_lowered", chunk_id=str(self.claim.chunk_id), **asdict(bound))
                        self._note("chunk.batch_lowered", **asdict(bound))
                    case EngineChanged(engine=engine, instead_of=instead_of):
                        log.info("engine_remembered", engine=engine, instead_of=instead_of)
                        self._note("chunk.engine_changed", engine=engine, code=ErrorCode.OUT_OF_MEMORY, remembered=True)
                    case PageSeen():
                        self.step.device.answer(event, self._known(event.digest))
                    case PagesFinished(pages=pages):
                        self.in_work = None
                        self._record(pages)
                    case Tick():
                        pass
                    case ChunkEnded(stopped=stopped, measured=measured):
                        self.measured = measured
                        self._end(stopped=stopped)
                        return
                    case _:
                        assert_never(event)
                self._hold()

    def _note(self, kind: str, **detail: object) -> None:
        try:
            self.step.chunks.note(self.claim, kind, **detail)
        except Transient as error:
            # The trail is poorer for it; the reading goes on.
            log.warning("rows_out_of_reach", chunk_id=str(self.claim.chunk_id), detail=error.message)

    def _known(self, digest: str) -> KnownPage | None:
        try:
            return self.step.chunks.known_page(self.claim, digest)
        except Transient as error:
            # It is read again, then.
            log.warning("rows_out_of_reach", chunk_id=str(self.claim.chunk_id), detail=error.message)
            return None

    def _record(self, pages: tuple[PageEntry, ...]) -> None:
        hold = self._patiently(lambda: self.step.chunks.record(self.claim, pages))
        self.finished += len(pages)
        self.pages.update(page.outcome for page in pages)
        for page in pages:
            if page.tokens is not None:
                self.tokens = (self.tokens or 0) + page.tokens
            self.step.meter.page_read(page.engine or "none", (page.elapsed_ms or 0) / 1000, page.tokens)
        self.renewed = time.monotonic()
        self._obey(hold)

    def _hold(self) -> None:
        """Keep the lease while the device keeps its runner to its times, and hear of cancel and drain."""
        if self.step.draining():
            self._stop(Hold.GO_ON)
        now = time.monotonic()
        try:
            if now - self.renewed > self.step.lease.total_seconds() / 4:
                hold = self.step.chunks.renew(self.claim)
                self.renewed = self.looked = time.monotonic()
                self._obey(hold)
            elif now - self.looked > 1:
                self.looked = now
                self._obey(self.step.chunks.look(self.claim))
        except Transient as error:
            # The runner goes on: the database may be back before there is something to record.
            log.warning("rows_out_of_reach", detail=error.message)

    def _obey(self, hold: Hold) -> None:
        if hold is not Hold.GO_ON:
            self._stop(hold)

    def _stop(self, why: Hold) -> None:
        if self.asked_to_stop is None or why is Hold.CANCEL:
            if self.asked_to_stop is None:
                self.step.device.stop()
            self.asked_to_stop = why

    def _end(self, *, stopped: bool) -> None:
        if not stopped:
            self._patiently(lambda: self.step.chunks.finish(self.claim, self.measured))
            self.outcome = AttemptOutcome.DONE
            return
        outcome = _OUTCOME_OF[self.asked_to_stop or Hold.GO_ON]
        self._patiently(lambda: self.step.chunks.hand_back(self.claim, outcome, self.measured))
        self.outcome = outcome

    def fail(self, error: PipelineError) -> None:
        """Record that the attempt failed, and what follows from it."""
        log.warning("chunk_failed", code=error.code, detail=error.message)
        try:
            if self.asked_to_stop is not None:
                # Killed because it did not stop in time, or just then: that we asked is no fault of the chunk.
                self._end(stopped=True)
                return
            decision = self._decide(error)
            self._patiently(
                lambda: self.step.chunks.fail(self.claim, error, decision, self.measured, suspect=self.in_work)
            )
        except StaleMove as stale:
            log.warning("chunk_taken_away", reason=str(stale))
            return
        self.outcome, self.error_code = AttemptOutcome.FAILED, error.code
        if isinstance(decision, GiveUp):
            self.pages[PageOutcome.FAILED] += len(self.chunk.pages) - self.finished

    def _decide(self, error: PipelineError) -> ChunkDecision:
        pages_left = len(self.chunk.pages) - self.finished
        if pages_left == 0:
            return Retry(after=timedelta(0))
        engine = self.chunk.options.get("engine")
        return decide(
            error.code,
            attempts=self.chunk.attempts.and_one(error.code),
            pages_left=pages_left,
            limits=self.step.limits,
            jitter=self.step.jitter(),
            other_engine=self.step.other_engine(engine if isinstance(engine, str) else None),
            misfit=error.misfit if isinstance(error, ReadingFailed) else None,
        )

    def _patiently(self, write: "Callable[[], Hold | None]") -> Hold:
        """Write to the rows, trying again while the lease may still hold."""
        while True:
            try:
                return write() or Hold.GO_ON
            except Transient as error:
                if time.monotonic() - self.renewed > self.step.lease.total_seconds():
                    raise StaleMove(f"the rows were out of reach for a whole lease: {error.message}") from None
            self.step.sleep(_PAUSE_S)
