"""A page as a model has written it down: Markdown throughout, or parts with their places and Markdown.

DeepSeek-OCR's parts begin with `<|ref|>title<|/ref|><|det|>[[48, 61, 952, 118]]<|/det|>` (model card of
deepseek-ai/DeepSeek-OCR-2), Unlimited-OCR's with `<|det|>title [48, 61, 952, 118]<|/det|>` (`UnlimitedOcrProcessor` of
transformers 5.24); places are in thousandths of the page's width and height. What Qianfan-OCR thinks before it
writes stands between `<think>` and `</think>`, and is no text of the page (model card of baidu/Qianfan-OCR).
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from pipeline.domain.loops import loop_at_end
from pipeline.domain.recognition import Block, BlockKind, Flag, Polygon
from pipeline.engines.generated.markdown import blocks_of_markdown
from pipeline.engines.generated.said import Said
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import ReadPage

_PART = re.compile(
    r"(?:<\|ref\|>(?P<label>[^<]{0,60})<\|/ref\|>\s*<\|det\|>|<\|det\|>(?P<short>[^\s<\[]{1,60})\s)"
    r"(?P<places>[\[\]\d\s,.]{0,2000})<\|/det\|>",
    re.DOTALL,
)
_THOUGHT = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_PLACE = re.compile(r"\[\s*(\d+(?:\.\d+)?(?:\s*,\s*\d+(?:\.\d+)?){3})\s*\]")
_THOUSANDTHS = 999
_KIND_OF = {
    "header": BlockKind.HEADER,
    "page_header": BlockKind.HEADER,
    "footer": BlockKind.FOOTER,
    "page_footer": BlockKind.FOOTER,
    "page_number": BlockKind.PAGE_NUMBER,
    "footnote": BlockKind.FOOTNOTE,
    "page_footnote": BlockKind.FOOTNOTE,
    "aside_text": BlockKind.MARGINALIA,
}
"""Labels that say more than the Markdown does."""
_FORMULAS = frozenset({"equation", "formula"})
"""Labels of formulas, which not every model writes between marks."""
_LEVEL_OF = {"title": 1, "doc_title": 1, "sub_title": 2, "paragraph_title": 2}
"""Headings, which Unlimited-OCR writes without the marks of Markdown."""


def page_of(image: PageImage, said: Said, *, is_whole: bool) -> ReadPage:
    """Return what a model has said of a page.

    Args: is_whole says that the model ended by itself, and not because its tokens ran out or it was stopped.
    """
    flags: list[Flag] = []
    if loop := loop_at_end(said.text):
        flags.append(Flag(name="repetition", score=round(loop.span / len(said.text), 4)))
        said = replace(said, text=loop.cut(said.text))
    elif not is_whole:
        flags.append(Flag(name="truncated", score=1.0))
    if thought := _THOUGHT.match(said.text):
        said = said.part(thought.end(), len(said.text))
    blocks = tuple(_parts(said, image))
    return ReadPage(number=image.number, lines=(), blocks=blocks, flags=tuple(flags))


def _parts(said: Said, image: PageImage) -> Iterator[Block]:
    page = _rectangle(0, 0, image.width_px, image.height_px)
    parts = list(_PART.finditer(said.text))
    if not parts:
        yield from blocks_of_markdown(said, page)
        return
    ends = [part.start() for part in parts[1:]] + [len(said.text)]
    yield from blocks_of_markdown(_piece(said, 0, parts[0].start()), page)
    for part, end in zip(parts, ends, strict=True):
        label = (part["label"] or part["short"] or "").strip()
        for block in blocks_of_markdown(_piece(said, part.end(), end), _place(part["places"], image) or page):
            yield _labelled(block, label)


def _labelled(block: Block, label: str) -> Block:
    if kind := _KIND_OF.get(label):
        return Block(kind=kind, lines=block.lines)
    if block.kind is BlockKind.TEXT and label in _FORMULAS:
        return Block(kind=BlockKind.FORMULA, lines=block.lines)
    if block.kind is BlockKind.TEXT and label in _LEVEL_OF:
        return Block(kind=BlockKind.HEADING, lines=block.lines, level=_LEVEL_OF[label])
    return block


def _piece(said: Said, start: int, end: int) -> Said:
    text = said.text[start:end]
    sure = said.confidence(start, end)
    return Said(text=text) if sure is None else Said(text=text, tokens=[text], probabilities=[sure])


def _place(places: str, image: PageImage) -> Polygon | None:
    found = [[float(number) for number in place.split(",")] for place in _PLACE.findall(places)]
    if not found:
        return None
    left, top = (min(place[index] for place in found) for index in (0, 1))
    right, bottom = (max(place[index] for place in found) for index in (2, 3))
    across, down = image.width_px / _THOUSANDTHS, image.height_px / _THOUSANDTHS
    return _rectangle(
        *(min(max(0, value * scale), scale * _THOUSANDTHS) for value, scale in (
            (left, across), (top, down), (right, across), (bottom, down),
        ))
    )  # fmt: skip


def _rectangle(left: float, top: float, right: float, bottom: float) -> Polygon:
    return ((left, top), (right, top), (right, bottom), (left, bottom))
