"""Earlier pages: a page that looks like one that the tenant had read before is taken over from there, not read again.

Two pages are alike if every pixel is, at the same resolution, and if the same engine would read them with the same
options. What a page looks like is known once it is rendered, so this stands between rendering and the engine; blank
pages and those with a text layer of their own never come here.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

from pipeline import __version__
from pipeline.domain.document import JobId
from pipeline.domain.languages import Language
from pipeline.domain.recognition import EngineIdentity, PageOutcome, PageResult, PageSource
from pipeline.ports.chunks import KnownPage
from pipeline.steps.read_pages import Prepared

_FOR_WANT_OF_MEMORY = frozenset({"read_smaller", "truncated"})
"""Flags of pages that may be read better where there is more."""


def page_digest(
    page: Prepared, engine: EngineIdentity, *, languages: Sequence[Language] = (), with_words: bool = False
) -> str:
    """Return a name for all that decides what will be read on a page; the profile is part of the engine's identity."""
    image, origin = page.image, page.origin
    asked = (
        *(engine.name, engine.revision, engine.settings_digest, __version__),
        *(image.width_px, image.height_px, image.dpi, origin.scan_dpi, origin.layer_doubt),
        *(with_words, *(language.code for language in languages)),
    )
    digest = hashlib.blake2b(repr(asked).encode(), digest_size=32)
    digest.update(image.pixels.reshape(-1).data)
    return digest.hexdigest()


@dataclass(slots=True, kw_only=True)
class EarlierPages:
    """What is known of pages that look like those of one attempt at a chunk."""

    job_id: JobId
    chunk_id: UUID
    attempt: int
    digest: Callable[[Prepared], str]
    ask: Callable[[str], KnownPage | None]
    """Says where the tenant has such a page, if it has one."""
    fetch: Callable[[KnownPage], PageResult | None]
    """Gives that page; None where it can't be had any more."""
    _digests: dict[int, str] = field(default_factory=dict)
    _here: dict[str, PageResult] = field(default_factory=dict)

    def find(self, page: Prepared) -> PageResult | None:
        """Return the result of a page that was read before, as this page's own; None where it has to be read."""
        if page.layer is not None:
            return None
        digest = self._digests[page.number] = self.digest(page)
        found = self._here.get(digest)
        source = PageSource(job_id=self.job_id, number=found.number) if found else None
        if found is None and (known := self.ask(digest)):
            found, source = self.fetch(known), PageSource(job_id=known.job_id, number=known.number)
        return self._taken_over(found, source, page) if found and source else None

    def remembered(self, results: Iterable[PageResult]) -> Iterator[PageResult]:
        """Yield the results as they come, and remember those that others may be taken over from."""
        for result in results:
            if digest := self.digest_of(result):
                self._here[digest] = result
            yield result

    def digest_of(self, result: PageResult) -> str | None:
        """Return what a finished page looks like, if others may be taken over from it."""
        was_read_well = result.blocks and _FOR_WANT_OF_MEMORY.isdisjoint(flag.name for flag in result.flags)
        return self._digests.get(result.number) if was_read_well and not result.provenance.source else None

    def _taken_over(self, found: PageResult, source: PageSource, page: Prepared) -> PageResult | None:
        if found.outcome is not PageOutcome.RECOGNISED:
            return None
        elapsed_ms = round(page.spent / timedelta(milliseconds=1))
        provenance = replace(
            found.provenance,
            chunk_id=self.chunk_id,
            attempt=self.attempt,
            elapsed_ms=elapsed_ms,
            source=source,
        )
        return replace(found, number=page.number, provenance=provenance)
