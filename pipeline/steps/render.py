"""Render: draw a chunk's pages ahead of its recognition, so that the device never waits for it."""

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from pipeline.domain import keys
from pipeline.domain.document import ChunkId, PageClass
from pipeline.domain.errors import PipelineError, StaleMove
from pipeline.domain.options import parse_options
from pipeline.domain.password import Password
from pipeline.domain.profiles import Profile
from pipeline.ports.chunks import ChunkMoves, ClaimedChunk
from pipeline.ports.objects import ObjectStore
from pipeline.steps.job_step import Next

log = structlog.get_logger()
Renders = Callable[[Path, Iterable[int], float | None, Password | None], Iterable[tuple[int, bytes]]]
"""Yields each page's number and its image as PNG; leaves out those that can't be rendered."""
_RENDERED = (PageClass.SCAN,)
"""Others get their text, or part of it, from the file, at a resolution of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Render:
    """The step, over its ports."""

    chunks: ChunkMoves
    objects: ObjectStore
    render_for: Callable[[Profile], Renders]

    def __call__(self, chunk_id: ChunkId, attempt: int) -> Next:
        """Store the chunk's pages as images, if it still waits at this attempt.

        Nothing is claimed: a second time renders what is not there yet. A page that can't be rendered is left to the
        device, whose attempt is counted and which says on the page's row what was wrong.
        """
        try:
            chunk = self.chunks.peek(chunk_id, attempt)
        except StaleMove as stale:
            log.info("chunk_not_rendered", chunk_id=str(chunk_id), attempt=attempt, reason=str(stale))
            return Next.STOP
        try:
            self._render(chunk)
        except PipelineError as error:
            log.warning("chunk_not_rendered", chunk_id=str(chunk_id), attempt=attempt, reason=str(error))
        return Next.GO_ON

    def _render(self, chunk: ClaimedChunk) -> None:
        options, claim = parse_options(chunk.options), chunk.claim
        key_of = {
            page.number: keys.rendered_page(claim.job_id, claim.chunk_id, page.number, options.dpi, options.profile)
            for page in chunk.pages
            if page.page_class in _RENDERED
        }
        # The message comes again while the chunk waits for a device, which may be long.
        wanted = [number for number, key in key_of.items() if self.objects.size(key) is None]
        if not wanted:
            return
        with tempfile.TemporaryDirectory(prefix="muniment-render-") as folder:
            path = Path(folder) / "original"
            with self.objects.get(keys.original(chunk.sha256)) as pieces, path.open("wb") as file:
                file.writelines(pieces)
            for number, image in self.render_for(options.profile)(path, wanted, options.dpi, chunk.password):
                self.objects.put(key_of[number], image, media_type="image/png")
