"""How a process begins: it finds out whether it can do its work and, if not, says why and ends by a code of its own."""

import gc
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import IntEnum

import structlog

from pipeline.settings import SettingsError

log = structlog.get_logger()
_PAUSE_S = 0.5


class ExitCode(IntEnum):
    """Why a process ended before it began; never changed, for those that watch it."""

    SETTINGS = 2
    """They can't be used as they are."""
    DEVICE_HELD = 4
    DATABASE = 10
    """It does not answer."""
    SCHEMA = 11
    """The database is at another revision than this version needs."""
    BROKER = 12
    """It does not answer, or would break the rules."""
    STORE = 13
    """It does not answer, or does not take or give objects."""


def keep_for_good() -> None:
    """Take what is loaded by now, modules and models, out of what later collections walk through."""
    gc.collect()
    gc.freeze()


class Unfit(Exception):
    """Something that a process needs is not as it has to be; the message says what was found and what to do."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def until_fit(checks: Sequence[Callable[[], None]], patience: timedelta) -> None:
    """Check again and again until nothing is wrong, for what else starts now or is being upgraded.

    Raises: Unfit, when the patience is over.
    """
    deadline = time.monotonic() + patience.total_seconds()
    for check in checks:
        told = False
        while True:
            try:
                check()
                break
            except Unfit as problem:
                if time.monotonic() > deadline:
                    raise
                if not told:
                    log.warning("start_waits", problem=str(problem), patience_s=patience.total_seconds())
                told = True
            time.sleep(_PAUSE_S)


def exit_code_of(name: str, run: Callable[[], None]) -> int:
    """Run a process to its end and return its exit code; what kept it from beginning goes to standard error."""
    try:
        run()
    except SettingsError as error:
        sys.stderr.write(f"muniment {name}: {error}\n")
        return ExitCode.SETTINGS
    except Unfit as error:
        sys.stderr.write(f"muniment {name}: {error}\n")
        return error.code
    return 0
