"""The page model: what is known of one page once it has been read, and what made it.

Coordinates are pixels of the page as rendered, `width_px` by `height_px` at `dpi`, origin in the top left corner.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType
from uuid import UUID

from pipeline.domain.joining import join_lines

Point = tuple[float, float]
Polygon = tuple[Point, ...]
EngineName = NewType("EngineName", str)


class PageOutcome(StrEnum):
    """How a page ended. Every page gets exactly one."""

    TEXT_LAYER = "text_layer"
    RECOGNISED = "recognised"
    BLANK = "blank"
    FAILED = "failed"


class BlockKind(StrEnum):
    """What a block is on its page."""

    TEXT = "text"
    """A paragraph, and whatever is nothing else."""
    HEADING = "heading"
    LIST = "list"
    TABLE = "table"
    FIGURE = "figure"
    FORMULA = "formula"
    FOOTNOTE = "footnote"
    MARGINALIA = "marginalia"
    HEADER = "header"
    FOOTER = "footer"
    PAGE_NUMBER = "page_number"


def _check_share(what: str, value: float | None) -> None:
    if value is not None and not 0.0 <= value <= 1.0:
        raise ValueError(f"a {what} lies in [0, 1], got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word of a line, or one ideograph, without the spaces around it."""

    text: str
    polygon: Polygon
    confidence: float | None = None

    def __post_init__(self) -> None:
        _check_share("confidence", self.confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of text."""

    text: str
    polygon: Polygon
    confidence: float | None = None
    """None for a text layer: nobody guessed."""
    words: tuple[Word, ...] = ()
    """In reading order, all of the text's or none: where no engine gave any, or nobody asked."""

    def __post_init__(self) -> None:
        _check_share("confidence", self.confidence)
        if len(self.polygon) < 3:
            raise ValueError("a polygon has at least three corners")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of a list."""

    lines: tuple[int, ...]
    """Which lines of the block it is made of, counted from 0."""
    depth: int = 0
    """How far inside: 0 for the outermost items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a table; rows and columns count from 0."""

    row: int
    column: int
    lines: tuple[int, ...]
    """Which lines of the block stand in it, counted from 0."""
    row_span: int = 1
    column_span: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Lines that belong together, in reading order; at least one."""

    kind: BlockKind
    lines: tuple[Line, ...]
    level: int | None = None
    """Of a heading: 1 (title of a book or part) to 6; None where nobody judged it."""
    items: tuple[Item, ...] = ()
    """Of a list: each of its lines is in exactly one of them, in order."""
    cells: tuple[Cell, ...] = ()
    """Of a table, row by row: each of its lines is in exactly one of them, in order."""

    def __post_init__(self) -> None:
        if not self.lines:
            raise ValueError("a block holds at least one line")
        if self.level is not None and (self.kind is not BlockKind.HEADING or not 1 <= self.level <= 6):
            raise ValueError(f"a heading has a level of 1 to 6, not a {self.kind} one of {self.level}")
        for owner, parts in ((BlockKind.LIST, self.items), (BlockKind.TABLE, self.cells)):
            if parts and self.kind is not owner:
                raise ValueError(f"a {self.kind} has no parts of a {owner}")
            if parts and [index for part in parts for index in part.lines] != list(range(len(self.lines))):
                raise ValueError(f"each line of a {owner} belongs to exactly one of its parts, in order")

    @property
    def text(self) -> str:
        """Return the lines, one below the other."""
        return "\n".join(line.text for line in self.lines)

    @property
    def joined(self) -> str:
        """Return the lines as one piece, hyphens at their ends undone."""
        return join_lines(line.text for line in self.lines)

    def text_of(self, part: Item | Cell) -> str:
        """Return an item's or a cell's lines as one piece."""
        return join_lines(self.lines[index].text for index in part.lines)

    @property
    def polygon(self) -> Polygon:
        """Return the upright rectangle around all lines."""
        xs = [x for line in self.lines for x, _ in line.polygon]
        ys = [y for line in self.lines for _, y in line.polygon]
        return ((min(xs), min(ys)), (max(xs), min(ys)), (max(xs), max(ys)), (min(xs), max(ys)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A doubt about a page, with a score in [0, 1] where one can be given."""

    name: str
    score: float | None = None

    def __post_init__(self) -> None:
        _check_share("score", self.score)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """Which recogniser read a page, exactly."""

    name: str
    revision: str
    settings_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSource:
    """A page that was read before, and looks the same."""

    job_id: UUID
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What made a page result."""

    engine: EngineIdentity
    chunk_id: UUID
    attempt: int
    elapsed_ms: int
    source: PageSource | None = None
    """Where it was taken over from, if it was not read again; the engine is the one that read it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResult:
    """One page, finished."""

    number: int
    outcome: PageOutcome
    width_px: int
    height_px: int
    dpi: float
    provenance: Provenance
    angle_deg: float = 0.0
    """How far the page was turned clockwise to read it."""
    blocks: tuple[Block, ...] = ()
    flags: tuple[Flag, ...] = ()
    error_code: str | None = None
    error_detail: str | None = None
    source_file: str | None = None
    """The file of an archive that it comes from; the ledger knows it, and it is told where pages are bound."""

    def __post_init__(self) -> None:
        if (self.outcome is PageOutcome.FAILED) != (self.error_code is not None):
            raise ValueError("a failed page says why, and no other page does")
        if self.outcome in (PageOutcome.BLANK, PageOutcome.FAILED) and self.blocks:
            raise ValueError(f"a page with the outcome {self.outcome} has no text")

    @property
    def text(self) -> str:
        """Return the page's text, blocks apart by an empty line."""
        return "\n\n".join(block.text for block in self.blocks)

    @property
    def confidence(self) -> float | None:
        """Return the mean confidence of the lines, weighted by their length; None if no line has one."""
        scored = [
            (line.confidence, len(line.text))
            for block in self.blocks
            for line in block.lines
            if line.confidence is not None
        ]
        weight = sum(length for _, length in scored)
        return sum(c * length for c, length in scored) / weight if weight else None
