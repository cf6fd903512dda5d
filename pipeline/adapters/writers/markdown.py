"""Writes `document.md`: what a page says, in reading order, with a mark where each page begins.

Headers, footers and page numbers are left out, footnotes stand below a rule at the end of their page.
"""

from collections.abc import Iterable, Iterator, Sequence

from pipeline.adapters.writers.markdown_escapes import escaped, escaped_heading
from pipeline.adapters.writers.markdown_table import table
from pipeline.adapters.writers.page_check import checked
from pipeline.domain.assembly import DocumentHeader
from pipeline.domain.item_marks import mark_of
from pipeline.domain.joining import goes_on
from pipeline.domain.recognition import Block, BlockKind, PageOutcome, PageResult
from pipeline.domain.serialisation import normalised

_LEFT_OUT = (BlockKind.HEADER, BlockKind.FOOTER, BlockKind.PAGE_NUMBER)
_LINES_OF_PROSE = 3
_RULE = "---"
_HARD_BREAK = "\\\n"


def write_markdown(header: DocumentHeader, pages: Iterable[PageResult]) -> Iterator[bytes]:
    """Yield the document as Markdown in UTF-8, each page after a comment with its number.

    Raises: PipelineError (`ledger_broken`), if the pages are not those of the header; what was yielded is void then.
    """
    for position, page in enumerate(checked(header, pages)):
        parts = [_page_mark(page), *_page_parts(normalised(page))]
        separator = "\n" if position else ""
        yield (separator + "\n\n".join(parts) + "\n").encode()


def _page_mark(page: PageResult) -> str:
    match page.outcome:
        case PageOutcome.FAILED:
            return f"<!-- page {page.number}: failed ({page.error_code}) -->"
        case PageOutcome.BLANK:
            return f"<!-- page {page.number}: blank -->"
        case PageOutcome.TEXT_LAYER | PageOutcome.RECOGNISED:
            return f"<!-- page {page.number} -->"


def _page_parts(page: PageResult) -> list[str]:
    body = [block for block in page.blocks if block.kind not in (*_LEFT_OUT, BlockKind.FOOTNOTE)]
    notes = [block for block in page.blocks if block.kind is BlockKind.FOOTNOTE]
    written = [*filter(None, map(_paragraph, notes))]
    return [*_body_parts(body), *([_RULE, *written] if written else [])]


def _body_parts(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield what is written of each block that shows anything; paragraphs that columns part are made whole."""
    last_list = False
    for block in _whole(blocks):
        is_second_list = last_list and block.kind is BlockKind.LIST
        written = _list(block, signs="*)" if is_second_list else "-.") if block.items else _block(block)
        if written:
            # Two lists in a row would be taken for one if their marks were the same.
            last_list = block.kind is BlockKind.LIST and not is_second_list
            yield written


def _whole(blocks: Sequence[Block]) -> Iterator[Block]:
    open_block: Block | None = None
    for block in blocks:
        if open_block and _is_continued(open_block, block):
            open_block = Block(kind=BlockKind.TEXT, lines=(*open_block.lines, *block.lines))
            continue
        if open_block:
            yield open_block
        open_block = block
    if open_block:
        yield open_block


def _is_continued(block: Block, following: Block) -> bool:
    are_paragraphs = block.kind is following.kind is BlockKind.TEXT and len(block.lines) >= _LINES_OF_PROSE
    return are_paragraphs and goes_on(block.lines[-1].text, following.lines[0].text)


def _block(block: Block) -> str:
    match block.kind:
        case BlockKind.HEADING:
            return escaped_heading(block.level or 2, block.joined) if block.joined else ""
        case BlockKind.TABLE if block.cells:
            return table(block)
        case BlockKind.TABLE | BlockKind.FIGURE | BlockKind.FORMULA:
            texts = [line.text for line in block.lines if line.text.strip()]
            return _HARD_BREAK.join(escaped(text) for text in texts)
        case BlockKind.MARGINALIA:
            joined = _paragraph(block)
            return f"> {joined}" if joined else ""
        case _:
            return _paragraph(block)


def _paragraph(block: Block) -> str:
    return escaped(block.joined)


def _list(block: Block, *, signs: str) -> str:
    """Return a list; marks that Markdown has no sign for are kept in the text.

    Args: signs are the bullet to use, and what to put behind a number.
    """
    rows = []
    indents: list[int] = []
    for item in block.items:
        text = block.text_of(item)
        sign, shown = _item(text, signs)
        depth = min(item.depth, len(indents))
        indents = [*indents[:depth], len(sign) + 1]
        if shown:
            rows.append(" " * sum(indents[:-1]) + f"{sign} {escaped(shown)}")
    return "\n".join(rows)


def _item(text: str, signs: str) -> tuple[str, str]:
    """Return the sign of an item and what stands behind it."""
    bullet, stop = signs[0], signs[1]
    mark = mark_of(text)
    if mark is None or mark.family not in ("1.", "1)") or mark.value is None:
        is_bullet = mark is not None and mark.value is None and mark.can_make_list
        return bullet, text[len(mark.text) :] if mark and is_bullet else text
    return f"{mark.value}{stop}", text[len(mark.text) :]
