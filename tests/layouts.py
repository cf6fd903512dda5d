"""Made pages: lines whose boxes are as broad as their text would be in print."""

from collections.abc import Sequence

from pipeline.domain.geometry import Box
from pipeline.domain.reading_order import order
from pipeline.domain.recognition import Block, BlockKind, Line
from pipeline.domain.writing import width_em

WIDTH, HEIGHT = 1654.0, 2339.0
"""A4 at 200 dpi."""
SIZE = 32.0
PITCH = 42.0
WORDS = [
    "the",
    "clerk",
    "of",
    "the",
    "harbour",
    "shall",
    "enter",
    "in",
    "this",
    "book",
    "every",
    "vessel",
    "that",
    "comes",
    "in",
    "or",
    "goes",
    "out",
    "with",
    "her",
    "name",
    "and",
    "her",
    "master",
    "and",
    "what",
    "she",
    "carries",
    "and",
    "from",
    "where",
    "and",
    "at",
    "what",
    "hour",
    "she",
    "passed",
    "the",
    "light",
    "and",
    "whether",
    "she",
    "paid",
    "her",
    "dues",
]


def typed(text: str, left: float, top: float, *, size: float = SIZE) -> Line:
    box = Box(left=left, top=top, right=left + width_em(text) * size, bottom=top + 1.2 * size)
    return Line(text=text, polygon=box.corners, confidence=0.9)


def prose(
    rows: int, top: float, *, left: float = 150.0, width: float = 1350.0, size: float = SIZE, pitch: float = 1.3
) -> list[Line]:
    """Return lines of running text; the first begins a sentence, the last is short and ends it."""
    words = [WORDS[index % len(WORDS)] for index in range(rows * 60)]
    lines = []
    for row in range(rows):
        text = ""
        limit = width if row < rows - 1 else width / 2
        while width_em(f"{text} {words[0]}") * size <= limit:
            text = f"{text} {words.pop(0)}".strip()
        text = text.capitalize() if row == 0 else text
        text = f"{text}." if row == rows - 1 else text
        # Set to the full measure, as printers do.
        right = left + width if row < rows - 1 else left + width_em(text) * size
        box = Box(left=left, top=top + row * pitch * size, right=right, bottom=top + (row * pitch + 1.2) * size)
        lines.append(Line(text=text, polygon=box.corners, confidence=0.9))
    return lines


def below(lines: Sequence[Line], *, gap: float = 60.0) -> float:
    """Return where something may stand under some lines."""
    return max(y for line in lines for _, y in line.polygon) + gap


def kinds(lines: Sequence[Line]) -> list[BlockKind]:
    return [block.kind for block in blocks(lines)]


def blocks(lines: Sequence[Line]) -> tuple[Block, ...]:
    return order(lines, WIDTH, HEIGHT)


def of_kind(lines: Sequence[Line], kind: BlockKind) -> list[Block]:
    return [block for block in blocks(lines) if block.kind is kind]
