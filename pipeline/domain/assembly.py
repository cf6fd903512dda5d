"""Binds segments into one document, in page order, and proves on the way that every page is there exactly once.

The merge step streams a document through `bind`; nothing here holds more of it than two segments.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, islice
from uuid import UUID

from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.page_selection import PageSelection
from pipeline.domain.recognition import EngineIdentity, Flag, PageOutcome, PageResult, Provenance
from pipeline.domain.states import JobState

OPEN_SEGMENTS = 2
"""Segments held in memory at once. Pages of one segment stand together, but for those that a retry filled in."""

NO_ENGINE = EngineIdentity(name="none", revision="", settings_digest="")
"""What made a page that failed with its chunk, before any engine could speak of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """One row of the page ledger, as the merge reads it."""

    number: int
    outcome: PageOutcome | None
    chunk_id: UUID | None
    """The chunk that made the page, or gave it up."""
    segment_key: str | None = None
    """Where the page lies; None only for a page that failed with its chunk."""
    attempt: int | None = None
    width_px: int | None = None
    height_px: int | None = None
    dpi: float | None = None
    elapsed_ms: int | None = None
    error_code: str | None = None
    error_detail: str | None = None
    source_file: str | None = None
    """The file of an archive that the page comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHeader:
    """What an output says of the document as a whole, before its pages."""

    job_id: UUID
    source_name: str
    sha256: str
    """Of the source, 64 lower-case hexadecimal digits."""
    media_type: str
    size_bytes: int
    page_count: int
    """How many pages are in the output."""
    selected: PageSelection | None
    """Which pages of the source these are; None for all."""
    outcomes: Mapping[PageOutcome, int]
    """How many pages ended how; those that no page has may be missing."""
    flags: tuple[Flag, ...]
    page_flags: Mapping[str, int]
    """How many pages have which flag."""
    created_at: datetime
    finished_at: datetime

    @property
    def numbers(self) -> Iterator[int]:
        """Yield the numbers of its pages, as `numbers_of`."""
        return numbers_of(self.page_count, self.selected)


def numbers_of(page_count: int, selected: PageSelection | None) -> Iterator[int]:
    """Yield the numbers of a document's pages, ascending: so many in all, and those that were asked for."""
    return islice(count(1) if selected is None else selected.numbers(), page_count)


ReadSegment = Callable[[str], Iterable[PageResult]]


def bind(ledger: Iterable[LedgerPage], read_segment: ReadSegment, numbers: Iterable[int]) -> Iterator[PageResult]:
    """Yield the pages of these numbers in order; only when it ends without an error is the document proven whole.

    Args: numbers are all that there are to be, ascending; ledger gives the document's rows by page number, ascending;
        read_segment gives the pages of a segment by its key, in any order, and is asked again for a segment whose pages
        do not stand together.
    Raises: PipelineError (`ledger_broken`), for a page that is missing, there twice or without an outcome, and for a
        segment that lacks a page or contradicts the ledger.
    """
    segments = _Segments(read_segment)
    expected = iter(numbers)
    for row in ledger:
        due = next(expected, None)
        if row.number != due:
            should = "nothing" if due is None else f"number {due}"
            raise _broken(f"{should} should follow, but the ledger has {row.number}")
        page = _failed_with_its_chunk(row) if row.segment_key is None else segments.take(row, row.segment_key)
        yield replace(page, source_file=row.source_file)
    if (due := next(expected, None)) is not None:
        raise _broken(f"the ledger ends before page {due}")


def judge(outcomes: Mapping[PageOutcome, int]) -> JobState:
    """Return how a bound document's job ends: succeeded, partial if some pages failed, failed if all did.

    Raises: ValueError, if there is no page at all.
    """
    failed = outcomes.get(PageOutcome.FAILED, 0)
    total = sum(outcomes.values())
    if total < 1:
        raise ValueError("a document without pages can't be judged")
    if failed == 0:
        return JobState.SUCCEEDED
    return JobState.FAILED if failed == total else JobState.PARTIAL


class _Segments:
    """The segments last read. What a segment holds of a page that was read again since is passed by."""

    def __init__(self, read_segment: ReadSegment) -> None:
        self._read_segment = read_segment
        self._open: OrderedDict[str, dict[int, PageResult]] = OrderedDict()

    def take(self, row: LedgerPage, key: str) -> PageResult:
        page = self._pages(key).get(row.number)
        if page is None:
            raise _broken(f"page {row.number} is not in its segment {key}")
        if page.outcome is not row.outcome or page.provenance.chunk_id != row.chunk_id:
            raise _broken(
                f"page {row.number} is {row.outcome} by chunk {row.chunk_id} in the ledger, "
                f"but {page.outcome} by chunk {page.provenance.chunk_id} in segment {key}"
            )
        return page

    def _pages(self, key: str) -> dict[int, PageResult]:
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        while len(self._open) >= OPEN_SEGMENTS:
            self._open.popitem(last=False)
        pages: dict[int, PageResult] = {}
        for page in self._read_segment(key):
            if page.number in pages:
                raise _broken(f"segment {key} holds page {page.number} twice")
            pages[page.number] = page
        self._open[key] = pages
        return pages


def _failed_with_its_chunk(row: LedgerPage) -> PageResult:
    if row.outcome is not PageOutcome.FAILED or row.error_code is None or row.chunk_id is None:
        raise _broken(f"page {row.number} has the outcome {row.outcome}, but no segment")
    return PageResult(
        number=row.number,
        outcome=PageOutcome.FAILED,
        width_px=row.width_px or 0,
        height_px=row.height_px or 0,
        dpi=row.dpi or 0.0,
        provenance=Provenance(
            engine=NO_ENGINE, chunk_id=row.chunk_id, attempt=row.attempt or 0, elapsed_ms=row.elapsed_ms or 0
        ),
        error_code=row.error_code,
        error_detail=row.error_detail,
    )


def _broken(message: str) -> PipelineError:
    return PipelineError(ErrorCode.LEDGER_BROKEN, message)
