"""Keeps a list of processes running: start with readiness, restart with backoff, logs, stop in reverse order."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from pipeline.embedded.child import Child, RestartPolicy
from pipeline.embedded.process import ProcessSpec
from pipeline.embedded.state import ProcessReport

__all__ = ["ProcessSpec", "RestartPolicy", "Supervisor"]

_DEFAULT_POLICY = RestartPolicy()


class Supervisor:
    """Starts, watches and stops processes. Used inside one event loop, in the main thread."""

    def __init__(
        self,
        *,
        logs: Path,
        restarts: RestartPolicy = _DEFAULT_POLICY,
        on_change: Callable[[], None] = lambda: None,
        echo: BinaryIO | None = None,
    ) -> None:
        """Args: echo gets what all processes print, beside their logs."""
        self._logs = logs
        self._restarts = restarts
        self._on_change = on_change
        self._echo = echo
        self._children: list[Child] = []

    @property
    def reports(self) -> dict[str, ProcessReport]:
        """Return what each process does now, in the order of their start."""
        return {child.spec.name: child.report for child in self._children}

    async def start(self, *specs: ProcessSpec) -> None:
        """Start some processes together and wait until all are ready; from then on they are kept running.

        Raises: ProcessFailed, when one ends or is not ready in time; all of these are stopped then.
        """
        children = [
            Child(spec, logs=self._logs, policy=self._restarts, on_change=self._on_change, echo=self._echo)
            for spec in specs
        ]
        self._children += children
        try:
            async with asyncio.TaskGroup() as starts:
                for child in children:
                    starts.create_task(child.start())
        except BaseException as error:
            await _stop(children)
            self._children = [child for child in self._children if child not in children]
            if isinstance(error, ExceptionGroup):
                raise error.exceptions[0] from None
            raise

    async def stop(self) -> None:
        """Stop all processes, the highest layer first. Nothing is left running. Calling twice is safe."""
        for layer in sorted({child.spec.layer for child in self._children}, reverse=True):
            await _stop([child for child in self._children if child.spec.layer == layer])
        self._children.clear()


async def _stop(children: Sequence[Child]) -> None:
    await asyncio.gather(*(child.stop() for child in children))
