"""The supervisor: keeps one runner for one device, feeds it chunks, watches that pages move on, and replaces it.

It lives in the Celery child, which therefore never loads an engine: memory, hung kernels and crashes end with the
runner, and the worker stays able to answer.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

import structlog

from pipeline.domain.batches import ANY, BatchBound, Misfit
from pipeline.domain.device_health import BREAKS_THE_RUNNER, Health
from pipeline.domain.errors import ErrorCode, PipelineError, Transient
from pipeline.domain.languages import parse_language
from pipeline.domain.profiles import Profile
from pipeline.domain.recognition import EngineIdentity, PageOutcome
from pipeline.domain.retry import Attempts
from pipeline.engines.registry import ASKED_NOTHING, Asked, heard_by
from pipeline.ports.chunks import ClaimedChunk, KnownPage, Measured, PageTask
from pipeline.ports.devices import (
    BatchLowered,
    ChunkEnded,
    EngineChanged,
    PageSeen,
    PagesFinished,
    ReadingEvent,
    ReadingFailed,
    Tick,
)
from workers.crowding import Crowding
from workers.device_budget import DeviceBudget, class_of
from workers.device_view import DeviceView
from workers.protocol import ProtocolError, known_to_json
from workers.runner_messages import event_of, measured_of
from workers.runner_process import Patience, Runner, RunnerCommand, RunnerGone
from workers.vacancy import Vacancy

log = structlog.get_logger()
_TICK = timedelta(seconds=0.5)
_VACANCY_LOOK = timedelta(seconds=0.05)
"""Between two looks whether the last runner is gone from the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBounds:
    """What a runner may hold between two chunks; one that holds more is replaced before it takes another."""

    most_bytes: int
    """Of the host."""
    tolerance_bytes: int
    """Above what it held when it was warm, of an accelerator if it has one, else of the host."""
    foreign_bytes: int = 512 * 1024**2
    """That others may take of an accelerator while it rests; more, and nothing is claimed for it."""

    def excess(self, measured: Measured, *, warm_bytes: int) -> int:
        """Return by how much a runner is over its bounds; 0 or less if it is within."""
        over_warm = (measured.after_bytes or 0) - warm_bytes - self.tolerance_bytes
        return max(over_warm, (measured.resident_bytes or 0) - self.most_bytes)


class Supervisor:
    """ReadingDevice over one runner.

    Its runner dies with the thread that started it, so `start`, `make_ready` and `attend` are for threads that last as
    long as the process does. `attend` may be called beside everything else, and does nothing while that goes on.
    """

    def __init__(
        self,
        device_id: str,
        command: RunnerCommand,
        patience: Patience,
        *,
        flush_pages: int,
        bounds: MemoryBounds,
        health: Health,
        view: DeviceView | None = None,
        budget: DeviceBudget | None = None,
        described: Callable[[EngineIdentity, Measured], None] = lambda _engine, _measured: None,
    ) -> None:
        self._device_id = device_id
        self._command = command
        self._default_engine = command.engine
        self._patience = patience
        self._flush_pages = flush_pages
        self._bounds = bounds
        self._health = health
        self._view = view
        self._budget = budget
        self._vacancy = Vacancy(view, tolerance_bytes=bounds.tolerance_bytes, patience=patience.gone)
        self._crowding = Crowding(view, tolerance_bytes=bounds.foreign_bytes)
        self._last_problem: str | None = None
        self._is_kept_out = False
        self._described = described
        self._identity: EngineIdentity | None = None
        self._identities: dict[str, EngineIdentity] = {}
        """Of the engines that its runners have had, by name."""
        self._warm_bytes = 0
        self._warm_by = 0.0
        self._in_use = threading.Lock()
        self._runner: Runner | None = None
        self._is_warm = False
        self._stop_by: float | None = None
        self._is_reading = False

    @property
    def device_id(self) -> str:
        """Return the id of the device's row."""
        return self._device_id

    @property
    def is_reading(self) -> bool:
        """Whether a chunk is in work."""
        return self._is_reading

    @property
    def is_sick(self) -> bool:
        """Whether the device is to take nothing until a probe has succeeded."""
        return self._health.is_sick

    @property
    def free_bytes(self) -> int | None:
        """Return what there is of the device for its engine, its weights included; None where nothing is planned."""
        return self._budget.free_bytes(self._vacancy.taken_bytes) if self._budget else None

    def problem(self) -> str | None:
        """Say why nothing may be claimed for the device now, if it is sick or somebody else has taken its memory.

        Between two chunks the driver is asked; while one is read, what others do is not told from what it takes.
        """
        if self._health.is_sick or self._is_kept_out:
            return self._last_problem or "it is tried again later"
        runner = self._runner
        if self._is_reading or runner is None or not self._is_warm:
            return None
        problem = self._crowding.problem(runner.pid)
        if problem and problem != self._last_problem:
            log.warning("device_crowded", device=self._device_id, detail=problem)
        self._last_problem = problem
        return problem

    def attend(self) -> None:
        """Between two chunks: have a runner, hear when it is warm, and probe a device that is sick when that is due."""
        if not self._in_use.acquire(blocking=False):
            return
        try:
            if self._runner is None and self._health.is_due(_now()):
                self.start()
            if self._runner is not None and not self._is_warm:
                self._hear_of_warmth(timedelta(0))
        except (RunnerGone, ProtocolError, TimeoutError) as error:
            self._give_up_warming(error)
        finally:
            self._in_use.release()

    def start(self) -> None:
        """Start a runner if there is none and the last one is gone from the device; do not wait until it is warm.

        Raises: TimeoutError, if the device is still held long after.
        """
        if self._runner is None and self._vacancy.is_reached():
            self._is_kept_out = False
            self._runner = Runner(self._command)
            self._warm_by = time.monotonic() + self._patience.warm_up.total_seconds()
            log.info("runner_started", device=self._device_id, pid=self._runner.pid)

    def make_ready(self) -> None:
        """Wait for a warm runner, starting one if there is none. Raises: Transient (`engine_unavailable`)."""
        with self._in_use:
            if self._is_warm and self._runner_is_quiet():
                return
            for _ in self._warming():
                pass

    def read(self, chunk: ClaimedChunk) -> Generator[ReadingEvent, None, None]:
        """Yield what happens to the chunk; see `ReadingDevice.read`."""
        with self._in_use:
            self._stop_by = None
            self._is_reading = True
            try:
                yield from self._read(chunk)
            except PipelineError as error:
                self._health = self._health.failed(chunk.claim.chunk_id, error.code, _now())
                if self._health.is_sick:
                    self._last_problem = str(error)
                    log.warning(
                        "device_sick", device=self._device_id, code=error.code, next_probe=self._health.probe_at
                    )
                raise
            finally:
                self._is_reading = False

    def _read(self, chunk: ClaimedChunk) -> Generator[ReadingEvent, None, None]:
        course = _Course(unfinished={page.number: page for page in chunk.pages})
        try:
            yield from self._switch(chunk)
            self._send(chunk)
            for event in self._events():
                course.hear(event)
                if isinstance(event, PagesFinished):
                    self._health = self._health.worked()
                    self._learn_other_engine(chunk, event)
                if isinstance(event, ChunkEnded):
                    known = self._learn(chunk, event, course.lowered)
                    self._weigh(known.measured)
                    yield known
                else:
                    yield event
        except GeneratorExit:
            if not course.ended:
                self._settle()
            raise
        except (RunnerGone, ProtocolError) as error:
            self._begin_anew()
            raise PipelineError(ErrorCode.PROCESS_DIED, str(error)) from None
        except ReadingFailed as error:
            error.measured = self._with_used(error.measured)
            error.misfit = self._misfit(error, course)
            if error.code in BREAKS_THE_RUNNER:
                # What the failed attempt still holds ends with its process; the next one starts from the baseline.
                self._show(error.measured)
                self._begin_anew()
            else:
                self._weigh(error.measured)
            raise

    def answer(self, seen: PageSeen, known: KnownPage | None) -> None:
        """Tell the runner what it waits for; a runner that has gone is noticed by whoever listens to it."""
        with suppress(RunnerGone):
            self._warm_runner().say("known", digest=seen.digest, page=known and known_to_json(known))

    def stop(self) -> None:
        """Ask the runner to stop at the next page border; it is killed if it does not within the grace time."""
        if self._runner is None or self._stop_by is not None:
            return
        self._stop_by = time.monotonic() + self._patience.stop.total_seconds()
        with suppress(RunnerGone):
            self._runner.say("stop")
        log.info("runner_asked_to_stop", device=self._device_id)

    def replace(self) -> None:
        """End the runner, and do not come back before it is gone; `attend` or `make_ready` starts another.

        One that the kernel can't end, as a process in a driver's uninterruptible sleep, sets the device aside, and none
        is started before it is gone.
        """
        runner, self._runner, self._is_warm = self._runner, None, False
        if not runner:
            return
        try:
            runner.end(self._patience.gone)
            log.info("runner_ended", device=self._device_id, pid=runner.pid)
        except TimeoutError as error:
            self._vacancy.await_end_of(runner)
            self._health = self._health.set_aside(_now())
            log.error("runner_does_not_end", device=self._device_id, pid=runner.pid, detail=str(error))  # noqa: TRY400

    def _switch(self, chunk: ClaimedChunk) -> Generator[ReadingEvent, None, None]:
        """Have the engine that the chunk's job asks for, or the one that lately read what this had no memory for."""
        engine = str(chunk.options.get("engine") or self._default_engine)
        if engine not in self._identities:
            # Which revision of it has no memory is to be known first.
            yield from self._have(engine, chunk)
        other = self._other_engine(engine, chunk)
        yield from self._have(other or engine, chunk)
        if other:
            yield EngineChanged(engine=other, instead_of=engine)

    def _other_engine(self, engine: str, chunk: ClaimedChunk) -> str | None:
        """Return what reads instead; nothing once that has failed, too, so that the ladder is walked from its top."""
        identity = self._identities.get(engine)
        if self._budget is None or identity is None or chunk.attempts != Attempts():
            return None
        return self._budget.other_engine(identity, class_of(chunk.pages))

    def _misfit(self, error: ReadingFailed, course: "_Course") -> Misfit | None:
        if error.code is not ErrorCode.OUT_OF_MEMORY or self._budget is None or self._identity is None:
            return None
        return self._budget.misfit(self._identity, class_of(tuple(course.unfinished.values())))

    def _learn_other_engine(self, chunk: ClaimedChunk, finished: PagesFinished) -> None:
        was_read = any(page.outcome is PageOutcome.RECOGNISED for page in finished.pages)
        if chunk.misfit and was_read and self._budget and self._identity:
            self._budget.learn_other_engine(chunk.misfit, self._identity.name)

    def _have(self, engine: str, chunk: ClaimedChunk) -> Generator[ReadingEvent, None, None]:
        """Replace the runner if it has another engine, or was told other things than the chunk's job asks of it."""
        asked = heard_by(engine, Asked(languages=_languages(chunk), profile=_profile(chunk)))
        if (engine, asked) == (self._command.engine, self._command.asked) and self._is_warm:
            return
        self.replace()
        self._command = replace(self._command, engine=engine, asked=asked)
        try:
            for _ in self._warming():
                yield Tick()
        except Transient:
            # That this one can't be had is this job's trouble alone.
            self._command = replace(self._command, engine=self._default_engine, asked=ASKED_NOTHING)
            raise

    def _send(self, chunk: ClaimedChunk) -> None:
        # After a failure each page is read and put away by itself, so that the one at fault stands alone at once.
        is_first = chunk.attempts == Attempts()
        bound = self._bound(chunk)
        if not is_first:
            bound = (bound or ANY).at_most(1)
        dpi = chunk.options.get("dpi")
        self._warm_runner().say(
            "chunk",
            job_id=str(chunk.claim.job_id),
            chunk_id=str(chunk.claim.chunk_id),
            attempt=chunk.claim.attempt,
            sha256=chunk.sha256,
            size_bytes=chunk.size_bytes,
            pages=[[page.number, page.page_class] for page in chunk.pages],
            dpi=dpi,
            profile=_profile(chunk) or Profile.BALANCED,
            languages=_languages(chunk),
            words=chunk.options.get("words", False),
            reuse=chunk.options.get("reuse", True),
            visual_tokens=chunk.options.get("visual_tokens"),
            rendered_ahead=chunk.lane.renders_ahead,
            flush_pages=self._flush_pages if is_first else 1,
            bound=asdict(bound) if bound else None,
            # Over the pipe alone: other users of the host may see arguments and environments.
            password=chunk.password.reveal if chunk.password else None,
        )

    def _bound(self, chunk: ClaimedChunk) -> BatchBound | None:
        if self._budget is None or self._identity is None:
            return None
        return self._budget.bound(self._identity, class_of(chunk.pages), taken_bytes=self._vacancy.taken_bytes)

    def _learn(self, chunk: ClaimedChunk, ended: ChunkEnded, lowered: BatchBound | None) -> ChunkEnded:
        """Return the end with all that is known of its memory, having learnt from it."""
        measured = self._with_used(ended.measured)
        if self._budget and self._identity:
            measured = self._budget.with_plan(
                self._identity, measured, pages=ended.batch_pages, pixels=ended.batch_pixels
            )
            self._budget.learn(self._identity, class_of(chunk.pages), measured, lowered)
        return replace(ended, measured=measured)

    def _events(self) -> Generator[ReadingEvent, None, None]:
        progressed = time.monotonic()
        while True:
            message = self._warm_runner().hear(_TICK)
            if message is None:
                self._check_times(progressed)
                yield Tick()
                continue
            progressed = time.monotonic()
            event = event_of(message)
            yield event
            if isinstance(event, ChunkEnded):
                return

    def _check_times(self, progressed: float) -> None:
        now = time.monotonic()
        if self._stop_by is not None and now > self._stop_by:
            self._begin_anew()
            raise PipelineError(ErrorCode.STALLED, "the runner did not stop at a page border and was killed")
        if now - progressed > self._patience.stall.total_seconds():
            self._begin_anew()
            raise PipelineError(ErrorCode.STALLED, f"no page moved on for {self._patience.stall}, runner killed")

    def _weigh(self, measured: Measured) -> None:
        """The gate before the next claim: replace a runner that holds too much."""
        self._show(measured)
        if (excess := self._bounds.excess(measured, warm_bytes=self._warm_bytes)) > 0:
            log.info("runner_outgrown", device=self._device_id, after_bytes=measured.after_bytes, excess_bytes=excess)
            self._begin_anew()

    def _with_used(self, measured: Measured) -> Measured:
        return replace(measured, used_bytes=self._view.used_bytes()) if self._view else measured

    def _show(self, measured: Measured) -> None:
        if self._identity:
            self._described(self._identity, replace(measured, baseline_bytes=self._warm_bytes))

    def _begin_anew(self) -> None:
        """Replace the runner by one that warms up while the next chunk is on its way."""
        self.replace()
        if self._health.is_sick:
            return  # `attend` starts one when a probe is due
        with suppress(TimeoutError):
            self.start()

    def _settle(self) -> None:
        """Bring the runner back to a page border, or end it."""
        self.stop()
        try:
            for event in self._events():
                if isinstance(event, ChunkEnded):
                    return
                if isinstance(event, PageSeen):
                    self.answer(event, None)
        except (PipelineError, RunnerGone, ProtocolError):
            self.replace()

    def _runner_is_quiet(self) -> bool:
        """Whether the warm runner is alive and has nothing to say between two chunks."""
        try:
            return self._warm_runner().hear(timedelta(0)) is None
        except (RunnerGone, ProtocolError) as error:
            log.warning("runner_lost_while_idle", device=self._device_id, detail=str(error))
        self.replace()
        return False

    def _warming(self) -> Generator[None, None, None]:
        """Start a runner if there is none, and yield now and then until it is warm.

        Raises: Transient (`engine_unavailable`).
        """
        try:
            while not self._is_warm:
                self.start()
                if self._runner is None:
                    time.sleep(_VACANCY_LOOK.total_seconds())
                    yield
                elif not self._hear_of_warmth(_TICK):
                    yield
        except (RunnerGone, ProtocolError, TimeoutError) as error:
            self._give_up_warming(error)
            raise Transient(ErrorCode.ENGINE_UNAVAILABLE, f"{self._device_id} has no engine: {error}") from error

    def _hear_of_warmth(self, timeout: timedelta) -> bool:
        """Say whether the runner has become warm within the time. Raises: RunnerGone, ProtocolError, TimeoutError."""
        message = self._warm_runner().hear(timeout)
        if message is None:
            if time.monotonic() > self._warm_by:
                raise TimeoutError(f"the runner was not warm within {self._patience.warm_up}")
            return False
        if message["kind"] != "ready":
            raise RunnerGone(message.get("message", "it says something else than that it is ready"))
        self._is_warm = True
        self._identity = EngineIdentity(
            name=message["engine"], revision=message["revision"], settings_digest=message["settings_digest"]
        )
        self._identities[self._identity.name] = self._identity
        warm = measured_of(message)
        self._warm_bytes = warm.after_bytes or 0
        self._crowding.warm()
        self._health = self._health.probed()
        self._show(warm)
        return True

    def _give_up_warming(self, error: Exception) -> None:
        log.warning("runner_not_warm", device=self._device_id, detail=str(error))
        self._last_problem = str(error)
        # Without a runner it was somebody else who did not let one start.
        self._is_kept_out = self._runner is None and isinstance(error, TimeoutError)
        self.replace()
        if self._command.engine == self._default_engine:
            self._health = self._health.probed_in_vain(_now())

    def _warm_runner(self) -> Runner:
        if self._runner is None:
            raise RunnerGone("there is no runner")
        return self._runner


@dataclass(slots=True, kw_only=True)
class _Course:
    """How far a chunk has come."""

    unfinished: dict[int, PageTask]
    lowered: BatchBound | None = None
    ended: bool = False

    def hear(self, event: ReadingEvent) -> None:
        """Take note of what happens to it."""
        if isinstance(event, PagesFinished):
            for page in event.pages:
                self.unfinished.pop(page.number, None)
        elif isinstance(event, BatchLowered):
            self.lowered = event.bound
        elif isinstance(event, ChunkEnded):
            self.ended = True


def _languages(chunk: ClaimedChunk) -> tuple[str, ...]:
    """Return the codes of the languages that the chunk's job names."""
    names = chunk.options.get("languages")
    return tuple(parse_language(name).code for name in names) if isinstance(names, list) else ()


def _profile(chunk: ClaimedChunk) -> Profile | None:
    """Return the profile that the chunk's job names, but for the usual one, which an engine has untold."""
    named = Profile(str(chunk.options.get("profile") or Profile.BALANCED))
    return None if named is Profile.BALANCED else named


def _now() -> datetime:
    return datetime.now(UTC)
