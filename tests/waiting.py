"""Waiting for a condition with a deadline, in place of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def eventually(condition: Callable[[], Found], *, within: float = 60) -> Found:
    """Return what the condition gives as soon as that is true; fail after so many seconds."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {within} s: {condition}")
        time.sleep(0.02)
    return found
