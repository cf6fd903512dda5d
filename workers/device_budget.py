"""How much of a chunk goes onto a device at once: what is planned, what sufficed before, and what is learnt from it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from pipeline.domain.batches import BatchBound, Misfit
from pipeline.domain.chunk_memory import EngineMemory
from pipeline.domain.document import PageClass
from pipeline.domain.errors import Transient
from pipeline.domain.memory import DoesNotFit
from pipeline.domain.pixel_memory import corrected
from pipeline.domain.recognition import EngineIdentity
from pipeline.ports.chunks import Measured, PageTask

log = structlog.get_logger()


class LearntMemory(Protocol):
    """What all workers have learnt of the memory that engines take. Raises: Transient (`database_unavailable`)."""

    def bound(self, engine: str, revision: str, device: str, page_class: PageClass) -> BatchBound | None:
        """Return what sufficed when memory last ran out, if that was not long ago."""

    def correction(self, engine: str) -> float:
        """Return how much more an engine takes than was planned, 1 if that is not known."""

    def other_engine(self, misfit: Misfit) -> str | None:
        """Return what read such pages when this engine had no memory for one, if that was not long ago."""

    def learn(
        self,
        engine: str,
        revision: str,
        device: str,
        page_class: PageClass,
        *,
        lowered: BatchBound | None,
        correction: float | None,
    ) -> None:
        """Keep what sufficed, if memory ran out, and the correction, if something was measured."""

    def learn_other_engine(self, misfit: Misfit, other: str) -> None:
        """Keep what has read such a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBudget:
    """What one device may be given."""

    device: str
    """Its kind and size, `cuda 25757220864`: what is learnt holds for all alike."""
    total_bytes: int | None
    """None where nothing is planned: the memory of a CPU slot is the host's."""
    model_of: Callable[[str], EngineMemory | None]
    learnt: LearntMemory
    other_engine_of: Callable[[str], str | None] = lambda _engine: None
    """Names what reads instead what an engine has no memory for, as the settings say now."""

    def free_bytes(self, taken_bytes: int) -> int | None:
        """Return what there is for an engine where others hold so much."""
        return None if self.total_bytes is None else max(0, self.total_bytes - taken_bytes)

    def bound(self, engine: EngineIdentity, page_class: PageClass, *, taken_bytes: int = 0) -> BatchBound | None:
        """Return the most that a batch may be, as far as anything is known; rows out of reach only widen it.

        Args: taken_bytes is what others hold of the device.
        """
        try:
            before = self.learnt.bound(engine.name, engine.revision, self.device, page_class)
            planned = self._planned(engine.name, taken_bytes)
        except Transient as error:
            log.warning("memory_not_recalled", detail=error.message)
            return None
        return planned.within(before) if planned and before else planned or before

    def misfit(self, engine: EngineIdentity, page_class: PageClass) -> Misfit:
        """Return what such pages are to an engine that has no memory for one."""
        return Misfit(engine=engine.name, revision=engine.revision, device=self.device, page_class=page_class)

    def other_engine(self, engine: EngineIdentity, page_class: PageClass) -> str | None:
        """Return what such pages are to begin with, if this engine had no memory for one and another one read it."""
        wanted = self.other_engine_of(engine.name)
        try:
            found = self.learnt.other_engine(self.misfit(engine, page_class)) if wanted else None
        except Transient as error:
            log.warning("memory_not_recalled", detail=error.message)
            return None
        return found if found == wanted else None

    def learn_other_engine(self, misfit: Misfit, other: str) -> None:
        """Keep what has read a page that another engine had no memory for; rows out of reach are no trouble."""
        try:
            self.learnt.learn_other_engine(misfit, other)
        except Transient as error:
            log.warning("memory_not_learnt", detail=error.message)

    def with_plan(self, engine: EngineIdentity, measured: Measured, *, pages: int, pixels: int) -> Measured:
        """Return a measurement with what was planned for its largest batch, uncorrected."""
        model = self.model_of(engine.name) if self.total_bytes is not None and pages else None
        if model is None:
            return measured
        return replace(measured, planned_bytes=model.planned_bytes(pages=pages, pixels=pixels))

    def learn(
        self, engine: EngineIdentity, page_class: PageClass, measured: Measured, lowered: BatchBound | None
    ) -> None:
        """Keep what a chunk has shown; rows out of reach are no trouble, the next chunk shows it again."""
        try:
            # What a batch took that did not fit is no measure of the one that did.
            correction = None if lowered else self._correction(engine.name, measured)
            if lowered is not None or correction is not None:
                self.learnt.learn(
                    engine.name, engine.revision, self.device, page_class, lowered=lowered, correction=correction
                )
        except Transient as error:
            log.warning("memory_not_learnt", detail=error.message)

    def _planned(self, engine: str, taken_bytes: int) -> BatchBound | None:
        free_bytes = self.free_bytes(taken_bytes)
        model = self.model_of(engine) if free_bytes is not None else None
        if model is None or free_bytes is None:
            return None
        try:
            return model.bound(free_bytes, correction=self.learnt.correction(engine))
        except DoesNotFit as error:
            # Planning refused what it knew of; the ladder decides about the rest, a page at a time.
            log.warning("engine_does_not_fit", engine=engine, detail=error.message)
            return None

    def _correction(self, engine: str, measured: Measured) -> float | None:
        model = self.model_of(engine)
        if model is None or None in (measured.planned_bytes, measured.peak_bytes, measured.baseline_bytes):
            return None
        planned = (measured.planned_bytes or 0) - model.weights_bytes
        took = (measured.peak_bytes or 0) - (measured.baseline_bytes or 0)
        if planned <= 0 or took <= 0:
            return None
        return corrected(self.learnt.correction(engine), planned_bytes=planned, measured_bytes=took)


def class_of(pages: tuple[PageTask, ...]) -> PageClass:
    """Return what a chunk's pages are to an engine: `mixed`, if one of them is, for these are rendered otherwise."""
    return PageClass.MIXED if any(page.page_class is PageClass.MIXED for page in pages) else PageClass.SCAN
