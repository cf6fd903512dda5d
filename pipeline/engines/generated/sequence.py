"""Several pages in one sequence: what was said of each, and whether it can be bound to the pages that were shown.

Unlimited-OCR begins each page with `<PAGE>` (`UnlimitedOcrProcessor` of transformers 5.24).
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.engines.generated.page import page_of
from pipeline.engines.generated.said import Said
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import ReadPage

PAGE_MARK = "<PAGE>"


def pages_of(images: Sequence[PageImage], said: Said, *, is_whole: bool, tokens: int) -> list[ReadPage] | None:
    """Return what a model has said of each of several pages; None if it did not say as many pages as it was shown.

    Then nothing tells which of its pages is which of theirs, and none of it may be used.

    Args: is_whole is as for `page_of`; tokens are all that were generated, each page gets its share of them.
    """
    parts = _parts(said)
    if len(parts) != len(images):
        return None
    length = sum(len(part.text) for part in parts) or 1
    return [
        replace(
            page_of(image, part, is_whole=is_whole or image is not images[-1]),
            tokens=round(tokens * len(part.text) / length),
        )
        for image, part in zip(images, parts, strict=True)
    ]


def _parts(said: Said) -> list[Said]:
    """Return what stands behind each mark; what stands before the first must be nothing to speak of."""
    starts: list[int] = []
    at = said.text.find(PAGE_MARK)
    if at < 0 or said.text[:at].strip():
        return []
    while at >= 0:
        starts.append(at)
        at = said.text.find(PAGE_MARK, at + 1)
    ends = [*starts[1:], len(said.text)]
    return [said.part(start + len(PAGE_MARK), end) for start, end in zip(starts, ends, strict=True)]
