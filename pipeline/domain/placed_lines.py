"""Lines as boxes in an upright frame, gathered into rows, and pieces of one line joined."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from pipeline.domain.geometry import Box, box_around, turn
from pipeline.domain.recognition import Line, Polygon
from pipeline.domain.writing import is_cjk, width_em

JOIN_GAP_EM = 1.0
"""Words further apart, in heights of their boxes, stay lines of their own: cells of a table."""
JOIN_HEIGHT_RATIO = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A line and its box in a frame where text runs to the right."""

    line: Line
    box: Box
    angle_deg: float
    """By how much the frame's text is turned clockwise on the page."""
    size: float
    """Of its type: of the font where a text layer knows it, else judged by the box and the text in it."""
    is_bold: bool = False
    """Known of text layers only."""
    pieces: tuple["Placed", ...] = ()
    """What it was put together of, or what wide gaps part in it: cells, where the line is a row of a table."""


Row = Sequence[Placed]


def place(line: Line, angle_deg: float) -> Placed:
    """Return the line's box once the page is turned back by an angle."""
    box = box_around(turn(line.polygon, -angle_deg))
    return Placed(line=line, box=box, angle_deg=angle_deg, size=_size(line.text, box))


def _size(text: str, box: Box) -> float:
    """Return about the size of the type. Boxes are up to 1.4 times too high at times, but their breadth is right."""
    return min(box.height, math.sqrt(box.height * box.width / (width_em(text) or 1.0)))


def em(placed: Sequence[Placed]) -> float:
    """Return the usual height of a line's box."""
    return median(item.box.height for item in placed)


def top(row: Row) -> float:
    """Return where a row begins."""
    return min(item.box.top for item in row)


def bottom(row: Row) -> float:
    """Return where a row ends."""
    return max(item.box.bottom for item in row)


def text_of(row: Row) -> str:
    """Return a row's text, spaces between its pieces."""
    return " ".join(item.line.text for item in row)


def box_of(rows: Iterable[Row]) -> Box:
    """Return the box around rows, of which there is at least one."""
    return box_around(corner for row in rows for item in row for corner in item.box.corners)


def rows_of(placed: Sequence[Placed]) -> list[list[Placed]]:
    """Return the lines by rows from the top, each from the left."""
    rows: list[list[Placed]] = []
    middle = height = 0.0
    for item in sorted(placed, key=lambda item: (item.box.middle, item.box.left)):
        height = min(height, item.box.height)
        if rows and item.box.middle - middle < height / 2:
            rows[-1].append(item)
            middle += (item.box.middle - middle) / len(rows[-1])
        else:
            rows.append([item])
            middle, height = item.box.middle, item.box.height
    return [sorted(row, key=lambda item: (item.box.left, item.box.top)) for row in rows]


def joined(row: Row) -> list[Placed]:
    """Return a row with those neighbours made one line that a reader would not tell apart."""
    pieces: list[list[Placed]] = []
    for item in row:
        if pieces and _continues(pieces[-1][-1].box, item.box):
            pieces[-1].append(item)
        else:
            pieces.append([item])
    return [piece[0] if len(piece) == 1 else _join(piece) for piece in pieces]


def _continues(before: Box, after: Box) -> bool:
    low, high = sorted((before.height, after.height))
    return after.left - before.right <= JOIN_GAP_EM * low and high <= JOIN_HEIGHT_RATIO * low


def _join(pieces: Sequence[Placed]) -> Placed:
    text = pieces[0].line.text
    for piece in pieces[1:]:
        text += _space_between(text, piece.line.text) + piece.line.text
    box = box_of([pieces])
    angle_deg = pieces[0].angle_deg
    polygon = _beginning_like(turn(box.corners, angle_deg), pieces[0].line.polygon)
    lines = [piece.line for piece in pieces]
    # Of a part alone they would be taken for all.
    words = [word for line in lines for word in line.words] if all(line.words for line in lines) else []
    line = Line(text=text, polygon=polygon, confidence=_confidence(lines), words=tuple(words))
    return Placed(
        line=line,
        box=box,
        angle_deg=angle_deg,
        size=max(pieces, key=lambda piece: len(piece.line.text)).size,
        is_bold=all(piece.is_bold for piece in pieces),
        pieces=tuple(pieces),
    )


def _beginning_like(corners: Polygon, model: Polygon) -> Polygon:
    """Return the corners so that the first edge runs as the model's does."""
    (x0, y0), (x1, y1) = model[:2]

    def agreement(start: int) -> float:
        (left, top), (right, bottom) = corners[start], corners[(start + 1) % len(corners)]
        length = math.hypot(right - left, bottom - top) or 1.0
        return ((right - left) * (x1 - x0) + (bottom - top) * (y1 - y0)) / length

    start = max(range(len(corners)), key=agreement)
    return corners[start:] + corners[:start]


def _space_between(before: str, after: str) -> str:
    if not before or not after or (is_cjk(before[-1]) and is_cjk(after[0])):
        return ""
    return " "


def _confidence(lines: Sequence[Line]) -> float | None:
    scored = [(line.confidence, max(1, len(line.text))) for line in lines if line.confidence is not None]
    weight = sum(length for _, length in scored)
    return min(1.0, sum(score * length for score, length in scored) / weight) if weight else None
