"""Reads the text of a PDF page with its positions, in the order of the file, which is the reading order of most."""

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pypdfium2.raw as pdfium

from pipeline.adapters.documents.geometry import pixels_of
from pipeline.adapters.documents.pdf_contents import FieldValue, PageContents, is_hidden
from pipeline.adapters.documents.text_lines import Run, blocks_of, clean, is_ideographic, joined
from pipeline.domain.recognition import Block
from pipeline.domain.text_quality import HYPHEN_MARKS

_LINE_ENDS = tuple(map(ord, "\r\n" + HYPHEN_MARKS))
"""A hyphen mark stands in place of the end of its line."""
_BLANKS = tuple(code for code in range(0x3001) if chr(code).isspace())
_KEPT_SPACE = 1.0
"""A space between two ideographs says something only if it is at least this wide, in character heights."""

_CELL_GAP = 0.6
"""Characters further apart, in heights of their line, may stand in two cells of a table."""
_BOLD_WEIGHT = 600
_BOLD_NAME = re.compile(rb"bold|black|heavy|-medi|[cs][mf]bx")
"""Fonts of TeX do not give their weight."""

Boxes = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a point of the page's own space lies on the page as rendered."""

    width_px: int
    height_px: int
    to_pixels: npt.NDArray[np.float64]
    """(2, 3), affine."""

    def boxes(self, boxes: Boxes) -> Boxes:
        """Return boxes `(n, 4)` of left, bottom, right, top as left, top, right, bottom in pixels."""
        corners = np.stack((boxes[:, :2], boxes[:, 2:])) @ self.to_pixels[:, :2].T + self.to_pixels[:, 2]
        return np.concatenate((corners.min(axis=0), corners.max(axis=0)), axis=1)


def placement_of(page: Any, dpi: float) -> Placement:
    """Return how a page is placed, its box moved to the origin and its /Rotate applied."""
    left, bottom, right, top = page.get_bbox()
    width_pt, height_pt = page.get_size()
    width, height = pixels_of(width_pt, dpi), pixels_of(height_pt, dpi)
    x, y = width / width_pt, height / height_pt
    affine = {
        0: ((x, 0, -left * x), (0, -y, top * y)),
        90: ((0, x, -bottom * x), (y, 0, -left * y)),
        180: ((-x, 0, right * x), (0, y, -bottom * y)),
        270: ((0, -x, top * x), (-y, 0, right * y)),
    }[page.get_rotation()]
    return Placement(width_px=width, height_px=height, to_pixels=np.array(affine, np.float64))


def text_blocks(page: Any, contents: PageContents, placement: Placement) -> tuple[Block, ...]:
    """Return the text within the page box, form values put behind their labels."""
    textpage = page.get_textpage()
    try:
        lines = joined(_runs(textpage, contents, placement))
    finally:
        textpage.close()
    for value in contents.field_values:
        _insert(lines, value, placement)
    return blocks_of(lines, placement.width_px, placement.height_px)


def _runs(textpage: Any, contents: PageContents, placement: Placement) -> Iterator[Run]:
    raw, count = textpage.raw, textpage.count_chars()
    if not count:
        return
    codes = np.fromiter((pdfium.FPDFText_GetUnicode(raw, index) for index in range(count)), np.uint32, count)
    boxes = placement.boxes(_glyph_boxes(raw, count))
    shown = _within(boxes, placement)
    shown[np.isin(codes, _BLANKS)] = False
    if contents.hidden_text_is_all_there_is:
        shown[[i for i in range(count) if is_hidden(pdfium.FPDFText_GetTextObject(raw, i))]] = False
    ends = np.flatnonzero(np.isin(codes, _LINE_ENDS)) + 1
    for first, end in zip((0, *ends), (*ends, count), strict=True):
        visible = np.flatnonzero(shown[first:end])
        if not visible.size:
            continue
        is_bold = _is_bold(raw, int(first + visible[0]), int(first + visible[-1]))
        if run := _run_with_pieces(codes[first:end], boxes[first:end], visible, is_bold=is_bold):
            yield run


def _is_bold(raw: Any, *indexes: int) -> bool:
    """Whether all of some characters are set in bold type, by the font's weight or else by its name."""
    return all(
        pdfium.FPDFText_GetFontWeight(raw, index) >= _BOLD_WEIGHT or _BOLD_NAME.search(_font_name(raw, index))
        for index in indexes
    )


def _font_name(raw: Any, index: int) -> bytes:
    name = ctypes.create_string_buffer(128)
    pdfium.FPDFText_GetFontInfo(raw, index, name, len(name), ctypes.c_int())
    return name.value.lower()


def _run_with_pieces(
    codes: npt.NDArray[np.uint32], boxes: Boxes, visible: npt.NDArray[np.intp], *, is_bold: bool
) -> Run | None:
    """Return a run, and what gaps wider than its height part in it."""
    run = _run(codes, boxes, visible, is_bold=is_bold)
    gaps = boxes[visible[1:], 0] - boxes[visible[:-1], 2]
    wide = np.flatnonzero(gaps > _CELL_GAP * (run.height if run else 0.0))
    if run is None or not wide.size:
        return run
    parts = [_run(codes, boxes, part, is_bold=is_bold) for part in np.split(visible, wide + 1)]
    return replace(run, pieces=tuple(part for part in parts if part))


def _glyph_boxes(raw: Any, count: int) -> Boxes:
    """Return the boxes `(count, 4)` of letters, as high as their font: left, bottom, right, top."""
    boxes = (pdfium.FS_RECTF * count)()
    get = pdfium.FPDFText_GetLooseCharBox
    for index in range(count):
        get(raw, index, boxes[index])
    # FS_RECTF has the order left, top, right, bottom.
    return np.frombuffer(boxes, ctypes.c_float).reshape(count, 4)[:, [0, 3, 2, 1]].astype(np.float64)


def _within(boxes: Boxes, placement: Placement) -> npt.NDArray[np.bool_]:
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = (middle >= 0) & (middle <= (placement.width_px, placement.height_px))
    return np.logical_and(inside[:, 0], inside[:, 1])


def _run(codes: npt.NDArray[np.uint32], boxes: Boxes, visible: npt.NDArray[np.intp], *, is_bold: bool) -> Run | None:
    text = clean("".join(_without_stray_spaces(_characters(codes), boxes, visible.tolist())))
    if not text:
        return None
    left, top = boxes[visible, :2].min(axis=0).tolist()
    right, bottom = boxes[visible, 2:].max(axis=0).tolist()
    heights = np.sort(boxes[visible, 3] - boxes[visible, 1])
    size = float(heights[visible.size // 2])
    return Run(text=text, left=left, top=top, right=right, bottom=bottom, size=size, is_bold=is_bold)


def _characters(codes: npt.NDArray[np.uint32]) -> list[str]:
    """Return each code as text; the first half of a surrogate pair gets the whole character, the second none."""
    characters = [chr(code) if code < 0x110000 else "\ufffd" for code in codes.tolist()]
    for index, character in enumerate(characters):
        if "\ud800" <= character <= "\udfff":
            pair = (character + "".join(characters[index + 1 : index + 2])).encode("utf-16", "surrogatepass")
            characters[index] = pair.decode("utf-16", "replace")[:1]
            characters[index + 1 : index + 2] = [""] * len(characters[index + 1 : index + 2])
    return characters


def _without_stray_spaces(characters: list[str], boxes: Boxes, visible: list[int]) -> Iterator[str]:
    """Yield the visible characters, one space where others lie between, none that only sets ideographs apart."""
    yield characters[visible[0]]
    for before, after in pairwise(visible):
        has_space = any(map(str.isspace, characters[before + 1 : after]))
        if has_space and not _is_stray(characters, boxes, before, after):
            yield " "
        yield characters[after]


def _is_stray(characters: list[str], boxes: Boxes, before: int, after: int) -> bool:
    if not (is_ideographic(characters[before][-1:] or " ") and is_ideographic(characters[after][:1] or " ")):
        return False
    gap = boxes[after, 0] - boxes[before, 2]
    return bool(gap < _KEPT_SPACE * (boxes[before, 3] - boxes[before, 1]))


def _insert(lines: list[Run], value: FieldValue, placement: Placement) -> None:
    """Put what was filled in behind the text that stands to its left, or at the end."""
    runs = list(_value_runs(value, placement))
    if not runs:
        return
    beside = [(round(_beside(line, runs[0]), 1), line.right, index) for index, line in enumerate(lines)]
    share, _, nearest = max(beside, default=(0.0, 0.0, 0))
    nearest = nearest if share >= 0.5 else len(lines) - 1
    lines[nearest + 1 : nearest + 1] = runs


def _beside(line: Run, value: Run) -> float:
    """Return the share of a line's height that lies at the height of the value, 0 if it does not begin before it."""
    if line.left >= value.left or not line.height:
        return 0.0
    return (min(line.bottom, value.bottom) - max(line.top, value.top)) / line.height


def _value_runs(value: FieldValue, placement: Placement) -> Iterator[Run]:
    left, top, right, bottom = placement.boxes(np.array([value.box]))[0].tolist()
    rows = [clean(row) for row in value.text.splitlines()]
    step = (bottom - top) / len(rows)
    for index, row in enumerate(rows):
        if row:
            above = top + index * step
            yield Run(text=row, left=left, top=above, right=right, bottom=above + step, size=step)
