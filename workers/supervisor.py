"""The supervisor: keeps one runner for one device, feeds it chunks, watches that pages move on, and replaces it.

It lives in the Celery child, which therefore never loads an engine: memory, hung kernels and crashes end with the
runner, and the worker stays able to answer.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import structlog

from pipeline.domain.errors import ErrorCode, PipelineError, Transient
from pipeline.domain.recognition import EngineIdentity
from pipeline.domain.retry import Attempts
from pipeline.ports.chunks import ClaimedChunk, Measured
from pipeline.ports.devices import ChunkEnded, PagesFinished, PageStarted, ReadingEvent, Tick
from workers.protocol import MAX_LINE_BYTES, Message, ProtocolError, decode, encode, entry_from_json

log = structlog.get_logger()
_TICK = timedelta(seconds=0.5)
_READ_BYTES = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerCommand:
    """How a runner is started."""

    engine: str
    lock: Path
    folder: Path
    """For its temporary files; emptied whenever a runner starts."""

    def argv(self) -> list[str]:
        """Return the command line."""
        return [
            sys.executable,
            "-m",
            "workers.runner",
            "--parent-pid",
            str(os.getpid()),
            "--lock",
            str(self.lock),
            "--folder",
            str(self.folder),
            "--engine",
            self.engine,
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a runner may take."""

    warm_up: timedelta
    stall: timedelta
    """From one sign of progress to the next."""
    stop: timedelta = timedelta(seconds=30)
    """From being asked to stop to the next page border."""
    gone: timedelta = timedelta(seconds=30)
    """From being killed to being reaped."""


class RunnerGone(Exception):
    """The runner has ended; its return code is in the message."""


class Runner:
    """A running runner process and the pipe to it. Start it from a thread that lives as long as it should."""

    def __init__(self, command: RunnerCommand) -> None:
        self._process = subprocess.Popen(
            command.argv(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdout is not None  # noqa: S101 - asked for just above
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)
        self._buffer = b""

    @property
    def pid(self) -> int:
        """Return its process id, which is also that of its process group."""
        return self._process.pid

    def say(self, kind: str, **fields: object) -> None:
        """Send a message. Raises: RunnerGone."""
        assert self._process.stdin is not None  # noqa: S101 - as above
        try:
            self._process.stdin.write(encode(kind, **fields))
        except BrokenPipeError:
            raise RunnerGone(self._epitaph()) from None

    def hear(self, timeout: timedelta) -> Message | None:
        """Return the next message, or None if there is none within the time. Raises: RunnerGone, ProtocolError."""
        deadline = time.monotonic() + timeout.total_seconds()
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_LINE_BYTES:
                raise ProtocolError(f"runner {self.pid} sends a line without an end")
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                return None
            piece = os.read(self._output, _READ_BYTES)
            if not piece:
                raise RunnerGone(self._epitaph())
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return decode(line)

    def end(self, patience: timedelta) -> None:
        """Kill its whole process group and wait until it is gone. Raises: TimeoutError, if the kernel can't end it."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        try:
            self._process.wait(patience.total_seconds())
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"runner {self.pid} was killed and does not go away") from None
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def _epitaph(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        if code is not None and code < 0:
            return f"the runner was ended by {signal.Signals(-code).name}"
        return f"the runner ended with exit code {code}"


class Supervisor:
    """ReadingDevice over one runner. Not for use by two threads; `make_ready` must be called from the main thread."""

    def __init__(
        self,
        device_id: str,
        command: RunnerCommand,
        patience: Patience,
        *,
        flush_pages: int,
        max_resident_bytes: int,
        described: Callable[[EngineIdentity, Measured], None] = lambda _engine, _measured: None,
    ) -> None:
        self._device_id = device_id
        self._command = command
        self._default_engine = command.engine
        self._patience = patience
        self._flush_pages = flush_pages
        self._max_resident_bytes = max_resident_bytes
        self._resident_bytes = 0
        self._described = described
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

    def start(self) -> None:
        """Start a runner if there is none, without waiting until it is warm."""
        if self._runner is None:
            self._runner = Runner(self._command)
            log.info("runner_started", device=self._device_id, pid=self._runner.pid)

    def make_ready(self) -> None:
        """Wait for a warm runner, starting one if there is none. Raises: Transient (`engine_unavailable`)."""
        if self._is_warm and self._runner_is_quiet():
            return
        for _ in self._warming():
            pass

    def read(self, chunk: ClaimedChunk) -> Generator[ReadingEvent, None, None]:
        """Yield what happens to the chunk; see `ReadingDevice.read`."""
        self._stop_by = None
        self._is_reading = True
        ended = False
        try:
            yield from self._switch(chunk)
            self._send(chunk)
            for event in self._events():
                if ended := isinstance(event, ChunkEnded):
                    self._keep_lean()
                yield event
        except GeneratorExit:
            if not ended:
                self._settle()
            raise
        except (RunnerGone, ProtocolError) as error:
            self.replace()
            raise PipelineError(ErrorCode.PROCESS_DIED, str(error)) from None
        except PipelineError as error:
            if error.code is ErrorCode.OUT_OF_MEMORY:
                # What the failed attempt still holds ends with its process; the next one starts from the baseline.
                self.replace()
            raise
        finally:
            self._is_reading = False

    def stop(self) -> None:
        """Ask the runner to stop at the next page border; it is killed if it does not within the grace time."""
        if self._runner is None or self._stop_by is not None:
            return
        self._stop_by = time.monotonic() + self._patience.stop.total_seconds()
        with suppress(RunnerGone):
            self._runner.say("stop")
        log.info("runner_asked_to_stop", device=self._device_id)

    def replace(self) -> None:
        """End the runner, and do not come back before it is gone; the next `make_ready` starts another."""
        runner, self._runner, self._is_warm = self._runner, None, False
        self._resident_bytes = 0
        if runner:
            runner.end(self._patience.gone)
            log.info("runner_ended", device=self._device_id, pid=runner.pid)

    def _switch(self, chunk: ClaimedChunk) -> Generator[ReadingEvent, None, None]:
        """Replace the runner if the chunk's job asks for another engine than it has."""
        asked = chunk.options.get("engine") or self._default_engine
        if asked == self._command.engine and self._is_warm:
            return
        self.replace()
        self._command = replace(self._command, engine=str(asked))
        for _ in self._warming():
            yield Tick()

    def _send(self, chunk: ClaimedChunk) -> None:
        # After a failure each page is put away by itself, so that the one at fault stands alone at once.
        flush_pages = self._flush_pages if chunk.attempts == Attempts() else 1
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
            rendered_ahead=chunk.lane.renders_ahead,
            flush_pages=flush_pages,
        )

    def _events(self) -> Generator[ReadingEvent, None, None]:
        progressed = time.monotonic()
        while True:
            message = self._warm_runner().hear(_TICK)
            if message is None:
                self._check_times(progressed)
                yield Tick()
                continue
            progressed = time.monotonic()
            self._resident_bytes = message.get("after_bytes", self._resident_bytes)
            event = _event_of(message)
            yield event
            if isinstance(event, ChunkEnded):
                return

    def _check_times(self, progressed: float) -> None:
        now = time.monotonic()
        if self._stop_by is not None and now > self._stop_by:
            self.replace()
            raise PipelineError(ErrorCode.STALLED, "the runner did not stop at a page border and was killed")
        if now - progressed > self._patience.stall.total_seconds():
            self.replace()
            raise PipelineError(ErrorCode.STALLED, f"no page moved on for {self._patience.stall}, runner killed")

    def _keep_lean(self) -> None:
        """Replace a runner that has grown over its bound, between two chunks, and start the next one warming up."""
        if self._resident_bytes > self._max_resident_bytes:
            log.info("runner_outgrown", device=self._device_id, resident_bytes=self._resident_bytes)
            self.replace()
            self.start()

    def _settle(self) -> None:
        """Bring the runner back to a page border, or end it."""
        self.stop()
        try:
            for event in self._events():
                if isinstance(event, ChunkEnded):
                    return
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
        self.start()
        try:
            yield from self._until_warm()
        except (RunnerGone, ProtocolError, TimeoutError) as error:
            self.replace()
            raise Transient(ErrorCode.ENGINE_UNAVAILABLE, f"{self._device_id} has no engine: {error}") from error

    def _until_warm(self) -> Generator[None, None, None]:
        deadline = time.monotonic() + self._patience.warm_up.total_seconds()
        while time.monotonic() < deadline:
            message = self._warm_runner().hear(_TICK)
            if message is None:
                yield
                continue
            if message["kind"] != "ready":
                raise RunnerGone(message.get("message", "it says something else than that it is ready"))
            self._is_warm = True
            identity = EngineIdentity(
                name=message["engine"], revision=message["revision"], settings_digest=message["settings_digest"]
            )
            self._described(identity, Measured(baseline_bytes=message["baseline_bytes"]))
            return
        raise TimeoutError(f"the runner was not warm within {self._patience.warm_up}")

    def _warm_runner(self) -> Runner:
        if self._runner is None:
            raise RunnerGone("there is no runner")
        return self._runner


def _event_of(message: Message) -> ReadingEvent:
    """Return what a message means. Raises: PipelineError, if it says that the chunk failed; ProtocolError."""
    match message["kind"]:
        case "page":
            return PageStarted(number=message["number"])
        case "pages":
            return PagesFinished(pages=tuple(entry_from_json(row) for row in message["pages"]))
        case "ended":
            return ChunkEnded(stopped=message["stopped"], measured=_measured(message))
        case "failed":
            raise PipelineError(ErrorCode(message["code"]), message["message"])
        case kind:
            raise ProtocolError(f"a message of an unknown kind: {kind}")


def _measured(message: Message) -> Measured:
    return Measured(baseline_bytes=message["baseline_bytes"], peak_bytes=message["peak_bytes"])
