"""An engine and a document in this process, without a stack: what `bench` and `soak` measure."""

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from pipeline.domain.recognition import PageResult
    from pipeline.ports.documents import OpenDocument
    from pipeline.ports.engines import MemoryGauge, MemoryReading, Recogniser
    from pipeline.steps.read_chunk import ChunkReader

_NO_CHUNK = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A warm engine before an open document."""

    engine: "Recogniser"
    document: "OpenDocument"
    sha256: str
    warm_up_s: float
    gauge: "MemoryGauge"
    warm: "MemoryReading"

    @property
    def device(self) -> str:
        """Return what the engine computes on."""
        return "cpu" if self.engine.gauge is None else os.environ.get("MUNIMENT_DEVICE", "cuda:0")

    def read(self, numbers: Sequence[int], *, reader: "ChunkReader | None" = None) -> Iterator["PageResult"]:
        """Yield what stands on these pages, in batches as a runner makes them.

        Args: reader is one of `reader`, where what it counts is wanted.
        """
        from pipeline.ports.chunks import PageTask

        tasks = [PageTask(number=number, page_class=self.document.facts(number).page_class) for number in numbers]
        return (reader or self.reader()).read(tasks)

    def reader(self) -> "ChunkReader":
        """Return what reads pages as a runner does, and counts."""
        from pipeline.adapters.blank_pages import is_blank
        from pipeline.adapters.page_look import look_at
        from pipeline.adapters.smaller_pages import smaller
        from pipeline.steps.read_chunk import ChunkReader
        from pipeline.steps.read_pages import PageReader

        pages = PageReader(
            document=self.document,
            engine=self.engine.identity,
            is_blank=is_blank,
            look=look_at,
            chunk_id=_NO_CHUNK,
            attempt=1,
        )
        return ChunkReader(
            pages=pages, engine=self.engine, bound=self.engine.batch, smaller=smaller, stopped=lambda: False
        )


@contextmanager
def open_reading(engine_name: str | None, path: Path) -> Iterator[Reading]:
    """Load an engine, by default the one of the settings, and open a document.

    Raises: PipelineError, if the engine can't run here or the document can't be opened.
    """
    from pipeline.adapters.documents.opener import FileOpener
    from pipeline.adapters.resident_memory import ResidentMemory, give_back_memory
    from pipeline.engines.registry import create
    from pipeline.settings import read_settings

    settings = read_settings()
    name = engine_name or settings.devices.engine
    started = time.monotonic()
    engine = create(name, settings.devices.engine_options.get(name, {}))
    engine.warm_up()
    warm_up_s = time.monotonic() - started
    gauge = engine.gauge or ResidentMemory()
    give_back_memory()
    gauge.give_back()
    with FileOpener(settings.limits.for_documents()).open(path) as document:
        yield Reading(
            engine=engine,
            document=document,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            warm_up_s=warm_up_s,
            gauge=gauge,
            warm=gauge.read(),
        )
