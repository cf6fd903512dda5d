"""Holds the results of a corpus against what is known of it, and says whether they are worse than earlier ones."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from pipeline.evaluation.measures import LineScore, characters, error_rate, line_score, reading_order, words
from pipeline.evaluation.truth import Known

RIGHT = 0.99
SURE = (0.98, 0.95, 0.9, 0.8, 0.0)
"""Lower bounds of the classes that confidences are sorted into."""
_STATE_OF = {"ok": "succeeded"}


class PageScore(BaseModel):
    """One page whose text is known."""

    file: str
    page: int
    kind: str
    characters: int
    cer: float
    wer: float
    order: float | None
    """Share of the lines found that stand in the right order; None if too few were found."""
    flags: list[str] = Field(default_factory=list)
    """Those that were raised."""


class Calibration(BaseModel):
    """Lines of pages whose text is known, of one class of confidence."""

    at_least: float
    lines: int
    right: int
    """Lines of which at least 99 % of the characters stand on the page."""
    characters_right: float
    """Mean share over the lines."""


class Blanks(BaseModel):
    """Pages of documents of which is known which pages are blank."""

    blank: int = 0
    found: int = 0
    called_blank: int = 0

    @property
    def precision(self) -> float:
        """Return the share of what was called blank that is."""
        return self.found / self.called_blank if self.called_blank else 1.0

    @property
    def recall(self) -> float:
        """Return the share of blank pages that was called so."""
        return self.found / self.blank if self.blank else 1.0


class Evaluation(BaseModel):
    """What a run over a corpus was worth."""

    version: Literal[1] = 1
    engines: list[str] = Field(default_factory=list)
    """Those that read the pages, with their revisions."""
    pages: list[PageScore] = Field(default_factory=list)
    calibration: list[Calibration] = Field(default_factory=list)
    blanks: Blanks = Blanks()
    outcomes: dict[str, int] = Field(default_factory=dict)
    """Pages by outcome."""
    flags: dict[str, int] = Field(default_factory=dict)
    """Pages by flag."""
    unexpected: list[str] = Field(default_factory=list)
    """Documents that did not end as they should have."""
    documents: int = 0
    seconds: float = 0.0

    @property
    def by_kind(self) -> dict[str, list[PageScore]]:
        """Return the pages by class, those of all classes last."""
        kinds: dict[str, list[PageScore]] = {}
        for page in self.pages:
            kinds.setdefault(page.kind, []).append(page)
        return kinds | {"all": self.pages}

    @property
    def by_flag(self) -> dict[str, list[PageScore]]:
        """Return the pages that each flag was raised on, and last those with any and with none."""
        names = sorted({name for page in self.pages for name in page.flags})
        return {name: [page for page in self.pages if name in page.flags] for name in names} | {
            "any": [page for page in self.pages if page.flags],
            "none": [page for page in self.pages if not page.flags],
        }


Read = Mapping[str, Any]
"""A page as `document.json` has it."""


def evaluate(corpus: Sequence[Known], results: Mapping[str, Read], seconds: float) -> Evaluation:
    """Return what the results are worth.

    Args: results has for each file name its `state`, `page_count`, and `pages`, as in `document.json`.
    """
    found = Evaluation(documents=len(corpus), seconds=round(seconds, 1))
    lines: list[LineScore] = []
    outcomes: Counter[str] = Counter()
    flags: Counter[str] = Counter()
    engines: set[str] = set()
    for known in corpus:
        file = str(known.file)
        result = results.get(file, {"state": "missing", "page_count": None, "pages": []})
        pages = {page["number"]: page for page in result["pages"]}
        found.unexpected += [f"{file}: {what}" for what in _unexpected(known, result, pages)]
        found.pages += _scored(known, pages)
        lines += _lines(known, pages)
        _count_blanks(found.blanks, known, pages)
        outcomes.update(page["outcome"] for page in pages.values())
        flags.update(flag["name"] for page in pages.values() for flag in page["flags"])
        engines |= {"{name} {revision}".format(**page["engine"]) for page in pages.values()}
    found.calibration = list(_calibrated(lines))
    found.outcomes, found.flags = dict(sorted(outcomes.items())), dict(sorted(flags.items()))
    found.engines = sorted(engines)
    return found


def _unexpected(known: Known, result: Read, pages: Mapping[int, Read]) -> Iterator[str]:
    expect = known.expect
    if expect.outcome:
        fair = {_STATE_OF.get(name, name) for name in (expect.outcome, *expect.also_acceptable)}
        if result["state"] not in fair:
            yield f"ended as {result['state']}, should be {' or '.join(sorted(fair))}"
    if expect.pages and result["state"] == "succeeded" and sorted(pages) != list(range(1, expect.pages + 1)):
        yield f"has {len(pages)} pages, should have {expect.pages}"


def _scored(known: Known, pages: Mapping[int, Read]) -> Iterator[PageScore]:
    for number, true in sorted(known.truths.items()):
        read = pages[number]["text"] if number in pages else ""
        yield PageScore(
            file=str(known.file),
            page=number,
            kind=known.kind,
            characters=len(characters(true)),
            cer=round(error_rate(characters(read), characters(true)), 4),
            wer=round(error_rate(words(read), words(true)), 4),
            order=reading_order(read, true),
            flags=sorted({flag["name"] for flag in pages[number]["flags"]}) if number in pages else [],
        )


def _lines(known: Known, pages: Mapping[int, Read]) -> Iterator[LineScore]:
    for number, true in known.truths.items():
        blocks = pages[number]["blocks"] if number in pages else []
        for line in (line for block in blocks for line in block["lines"]):
            if line["confidence"] is not None and (score := line_score(line["text"], line["confidence"], true)):
                yield score


def _count_blanks(blanks: Blanks, known: Known, pages: Mapping[int, Read]) -> None:
    if known.expect.blank_pages is None:
        return
    true = set(known.expect.blank_pages)
    called = {number for number, page in pages.items() if page["outcome"] == "blank"}
    blanks.blank += len(true)
    blanks.found += len(true & called)
    blanks.called_blank += len(called)


def _calibrated(lines: Iterable[LineScore]) -> Iterator[Calibration]:
    left = list(lines)
    for bound in SURE:
        those = [line for line in left if line.confidence >= bound]
        left = [line for line in left if line.confidence < bound]
        yield Calibration(
            at_least=bound,
            lines=len(those),
            right=sum(line.right >= RIGHT for line in those),
            characters_right=round(statistics.fmean(line.right for line in those), 4) if those else 1.0,
        )


def regressions(now: Evaluation, before: Evaluation, *, tolerance: float) -> list[str]:
    """Return in what the later evaluation is worse, over pages and documents that both know.

    Args: tolerance is how much a mean error rate may rise, and a share fall, without being a regression.
    """
    both = {(page.file, page.page) for page in now.pages} & {(page.file, page.page) for page in before.pages}
    found: list[str] = []
    for kind, pages in now.by_kind.items():
        new = [page for page in pages if (page.file, page.page) in both]
        old = [page for page in before.by_kind.get(kind, []) if (page.file, page.page) in both]
        if new and old:
            found += _risen(kind, new, old, tolerance)
    for name in ("precision", "recall"):
        was, is_now = getattr(before.blanks, name), getattr(now.blanks, name)
        if is_now < was - tolerance:
            found.append(f"blank pages: {name} {was:.3f} -> {is_now:.3f}")
    return found + [f"new: {what}" for what in now.unexpected if what not in before.unexpected]


def _risen(kind: str, new: Sequence[PageScore], old: Sequence[PageScore], tolerance: float) -> Iterator[str]:
    for name in ("cer", "wer"):
        was, is_now = (statistics.fmean(getattr(page, name) for page in pages) for pages in (old, new))
        if is_now > was + tolerance:
            yield f"{kind}: {name.upper()} {was:.4f} -> {is_now:.4f}"
    before, after = mean_order(old), mean_order(new)
    if before is not None and after is not None and after < before - tolerance:
        yield f"{kind}: reading order {before:.3f} -> {after:.3f}"


def mean_order(pages: Sequence[PageScore]) -> float | None:
    """Return the mean of those pages that have a score."""
    scores = [page.order for page in pages if page.order is not None]
    return statistics.fmean(scores) if scores else None
