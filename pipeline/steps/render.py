"""Render: draw a chunk's pages ahead of its recognition, so that the device never waits for it."""

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from pipeline.domain import keys
from pipeline.domain.document import ChunkId, JobId, PageClass
from pipeline.domain.errors import PipelineError, StaleMove
from pipeline.ports.chunks import ChunkMoves
from pipeline.ports.objects import ObjectStore
from pipeline.steps.job_step import Next

log = structlog.get_logger()
_RENDERED = (PageClass.SCAN,)
"""Others get their text, or part of it, from the file, at a resolution of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Render:
    """The step, over its ports."""

    chunks: ChunkMoves
    objects: ObjectStore
    render: Callable[[Path, Iterable[int], float | None], Iterable[tuple[int, bytes]]]
    """Yields each page's number and its image as PNG; leaves out those that can't be rendered."""

    def __call__(self, chunk_id: ChunkId, attempt: int) -> Next:
        """Store the chunk's pages as images, if it still waits at this attempt.

        Nothing is claimed: doing it twice writes the same objects. A page that can't be rendered is left to the device,
        whose attempt is counted and which says on the page's row what was wrong.
        """
        try:
            chunk = self.chunks.peek(chunk_id, attempt)
        except StaleMove as stale:
            log.info("chunk_not_rendered", chunk_id=str(chunk_id), attempt=attempt, reason=str(stale))
            return Next.STOP
        wanted = [page.number for page in chunk.pages if page.page_class in _RENDERED]
        dpi = chunk.options.get("dpi")
        try:
            with tempfile.TemporaryDirectory(prefix="muniment-render-") as folder:
                path = Path(folder) / "original"
                with self.objects.get(keys.original(chunk.sha256)) as pieces, path.open("wb") as file:
                    file.writelines(pieces)
                for number, image in self.render(path, wanted, float(dpi) if isinstance(dpi, int | float) else None):
                    self._put(chunk.claim.job_id, chunk_id, number, image)
        except PipelineError as error:
            log.warning("chunk_not_rendered", chunk_id=str(chunk_id), attempt=attempt, reason=str(error))
        return Next.GO_ON

    def _put(self, job_id: JobId, chunk_id: ChunkId, number: int, image: bytes) -> None:
        self.objects.put(keys.rendered_page(job_id, chunk_id, number), image, media_type="image/png")
