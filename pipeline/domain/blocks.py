"""Blocks: what the rows of a page are, column by column, once it is known in which order the columns are read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.domain.body_type import BodyType
from pipeline.domain.footnotes import footnotes
from pipeline.domain.formulas import is_formula
from pipeline.domain.geometry import Box
from pipeline.domain.headings import heading_level
from pipeline.domain.lists import list_at
from pipeline.domain.paragraphs import Column, column_of, paragraphs
from pipeline.domain.placed_lines import Row, box_of
from pipeline.domain.recognition import Block, BlockKind
from pipeline.domain.tables import tables


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBlock:
    """A block and its box in the frame of its lines."""

    block: Block
    box: Box


def blocks_of(rows: Sequence[Row], body: BodyType, page: Box) -> Iterator[PlacedBlock]:
    """Yield the blocks that the rows of one column make up, in their order; each row ends in exactly one."""
    if not rows:
        return
    column = column_of(rows)
    done = 0
    for span, table in tables(rows):
        yield from _running(rows[done : span.start], column, body, page)
        yield PlacedBlock(block=table, box=box_of(rows[span.start : span.stop]))
        done = span.stop
    yield from _running(rows[done:], column, body, page)


def _running(rows: Sequence[Row], column: Column, body: BodyType, page: Box) -> Iterator[PlacedBlock]:
    found = paragraphs(rows, column)
    notes = footnotes(found, body, page)
    index = 0
    while index < len(found):
        paragraph = found[index]
        following = index + 1
        before_notes = found[: min((note for note in notes if note > index), default=len(found))]
        if index in notes:
            yield placed_block(BlockKind.FOOTNOTE, paragraph.rows)
        elif listed := list_at(before_notes, index):
            block, following = listed
            yield PlacedBlock(block=block, box=box_of([row for item in found[index:following] for row in item.rows]))
        elif level := heading_level(found, index, column, body):
            yield placed_block(BlockKind.HEADING, paragraph.rows, level=level)
        else:
            yield placed_block(BlockKind.FORMULA if is_formula(paragraph, column) else BlockKind.TEXT, paragraph.rows)
        index = following


def placed_block(kind: BlockKind, rows: Sequence[Row], *, level: int | None = None) -> PlacedBlock:
    """Return rows as one block."""
    lines = tuple(item.line for row in rows for item in row)
    return PlacedBlock(block=Block(kind=kind, lines=lines, level=level), box=box_of(rows))
