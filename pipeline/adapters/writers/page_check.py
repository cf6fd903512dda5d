"""The last look at a document on its way out: what is written is what the header says, page by page."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pipeline.domain.assembly import DocumentHeader
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.recognition import PageOutcome, PageResult


def checked(header: DocumentHeader, pages: Iterable[PageResult]) -> Iterator[PageResult]:
    """Yield the pages as they come, proving that they are those of the header, in order, with its outcomes.

    Raises: PipelineError (`ledger_broken`), at the first page out of its place, or after the last if one is missing.
    """
    outcomes: Counter[PageOutcome] = Counter()
    numbers = header.numbers
    for page in pages:
        expected = next(numbers, None)
        if page.number != expected:
            raise _broken(header, f"page {expected} should follow, but {page.number} came")
        outcomes[page.outcome] += 1
        yield page
    # Counters compare as equal whether a count is 0 or missing.
    if outcomes != Counter(header.outcomes) or outcomes.total() != header.page_count:
        raise _broken(header, f"{header.page_count} pages were announced, but {outcomes.total()} or others came")


def _broken(header: DocumentHeader, message: str) -> PipelineError:
    return PipelineError(ErrorCode.LEDGER_BROKEN, f"job {header.job_id}: {message}")
