"""A runner process as its supervisor sees it: started, spoken to over pipes, ended with its whole process group."""

import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pipeline.engines.registry import ASKED_NOTHING, Asked
from workers.protocol import MAX_LINE_BYTES, Message, ProtocolError, decode, encode

_READ_BYTES = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerCommand:
    """How a runner is started."""

    engine: str
    asked: Asked = ASKED_NOTHING
    """Of the engine, as far as it can be told."""
    lock: Path
    folder: Path
    """For its temporary files; emptied whenever a runner starts."""
    niceness: int = 0
    """By how much it stands back behind other processes of the host."""
    core: int | None = None
    """That it keeps to."""

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
            f"--niceness={self.niceness}",
            *([] if self.core is None else [f"--core={self.core}"]),
            *(f"--language={code}" for code in self.asked.languages),
            *([f"--profile={self.asked.profile}"] if self.asked.profile else []),
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
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience.total_seconds())
        if not self.is_gone():
            raise TimeoutError(f"runner {self.pid} was killed and does not go away")

    def is_gone(self) -> bool:
        """Whether it has ended and was reaped; its pipes are closed then."""
        if self._process.poll() is None:
            return False
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        return True

    def _epitaph(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        if code is not None and code < 0:
            return f"the runner was ended by {signal.Signals(-code).name}"
        return f"the runner ended with exit code {code}"
