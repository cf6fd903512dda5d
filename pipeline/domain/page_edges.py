"""What stands at the head and foot of a page, as far as the page alone can say: its number, and what is beside that."""

from pipeline.domain.blocks import PlacedBlock, blocks_of, placed_block
from pipeline.domain.body_type import BodyType
from pipeline.domain.geometry import Box
from pipeline.domain.page_numbers import page_number
from pipeline.domain.placed_lines import Row, joined
from pipeline.domain.recognition import BlockKind

MARGIN = 0.15
"""Part of the page's height, at its head and foot, where a single row set apart is a header or a footer."""


def edge_blocks(row: Row, kind: BlockKind, body: BodyType, page: Box) -> list[PlacedBlock]:
    """Return a row set apart at an edge: a page number, and then what stands beside it is a header or footer.

    Without a number only other pages can say what it is.
    Args: kind is what it is called beside a number.
    """
    pieces = joined(row)
    numbers = [piece for piece in pieces if page_number(piece.line.text) is not None]
    if len(numbers) != 1:
        return list(blocks_of([pieces], body, page)) if pieces else []
    index = pieces.index(numbers[0])
    parts = [(kind, pieces[:index]), (BlockKind.PAGE_NUMBER, numbers), (kind, pieces[index + 1 :])]
    return [placed_block(what, [part]) for what, part in parts if part]
