"""An evaluation as Markdown."""

import statistics
from collections.abc import Iterator

from pipeline.evaluation.evaluation import Evaluation, PageScore, mean_order


def markdown(found: Evaluation) -> str:
    """Return the tables, one below the other."""
    parts = (_kinds(found), _pages(found), _calibration(found), _flags(found), _rest(found))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _kinds(found: Evaluation) -> Iterator[str]:
    yield "| class | pages | CER mean | CER median | WER mean | reading order |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for kind, pages in found.by_kind.items():
        if pages:
            cers = [page.cer for page in pages]
            wer = statistics.fmean(page.wer for page in pages)
            yield (
                f"| {kind} | {len(pages)} | {statistics.fmean(cers):.2%} | {statistics.median(cers):.2%} | {wer:.2%} "
                f"| {_order(mean_order(pages))} |"
            )


def _pages(found: Evaluation) -> Iterator[str]:
    yield "| page | characters | CER | WER | reading order |"
    yield "| --- | --- | --- | --- | --- |"
    for page in sorted(found.pages, key=_worst_last):
        rates = f"{page.cer:.2%} | {page.wer:.2%} | {_order(page.order)}"
        yield f"| {page.file}, {page.page} | {page.characters} | {rates} |"


def _worst_last(page: PageScore) -> tuple[float, str, int]:
    return page.cer, page.file, page.page


def _calibration(found: Evaluation) -> Iterator[str]:
    yield "| confidence | lines | right | of their characters | that or more: lines | right |"
    yield "| --- | --- | --- | --- | --- | --- |"
    lines = right = 0
    below = ""
    for group in found.calibration:
        lines, right = lines + group.lines, right + group.right
        this = f"{group.lines} | {_share(group.right, group.lines)} | {group.characters_right:.1%}"
        yield f"| {group.at_least:g}{below} | {this} | {lines} | {_share(right, lines)} |"
        below = f" to {group.at_least:g}"


def _flags(found: Evaluation) -> Iterator[str]:
    yield "| pages with the flag | pages | CER mean | CER worst |"
    yield "| --- | --- | --- | --- |"
    for name, pages in found.by_flag.items():
        if pages:
            cers = [page.cer for page in pages]
            yield f"| {name} | {len(pages)} | {statistics.fmean(cers):.2%} | {max(cers):.2%} |"


def _rest(found: Evaluation) -> Iterator[str]:
    pages = sum(found.outcomes.values())
    yield "| what | value |"
    yield "| --- | --- |"
    yield f"| documents, pages | {found.documents}, {pages} |"
    yield f"| pages by outcome | {_counts(found.outcomes)} |"
    yield f"| pages by flag | {_counts(found.flags)} |"
    blanks = found.blanks
    yield f"| blank pages: precision, recall | {blanks.precision:.3f}, {blanks.recall:.3f} of {blanks.blank} |"
    yield f"| documents that ended otherwise than they should | {len(found.unexpected)} |"
    if found.seconds:
        yield f"| pages a second, all in all | {pages / found.seconds:.2f} |"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _order(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"
