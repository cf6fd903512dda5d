"""Markdown that models write of a page, as blocks: headings, paragraphs, lists, tables (also in HTML), formulas.

What they write says nothing of places on the page, so every line has the whole page for its polygon.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pipeline.domain.recognition import Block, BlockKind, Cell, Item, Line, Polygon
from pipeline.engines.generated.html_table import HtmlCell, cells_of, without_tags
from pipeline.engines.generated.said import Said

_FORMULA = re.compile(r"^[ \t]*(?:\\\[(?P<bracket>.+?)\\\]|\$\$(?P<dollar>.+?)\$\$)[ \t]*$", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"\s*```(?:markdown|md)?\s*\n(?P<inside>.*?)\n?```\s*", re.DOTALL)
_TABLE = re.compile(r"<table\b.*?(?:</table>|\Z)", re.DOTALL | re.IGNORECASE)
_FURTHER = re.compile("|".join((_FORMULA.pattern, _TABLE.pattern)), re.DOTALL | re.MULTILINE | re.IGNORECASE)
_BULLET = "• "


def blocks_of_markdown(said: Said, page: Polygon) -> tuple[Block, ...]:
    """Return the blocks that a model's Markdown has, in its order.

    Args: page is the polygon that all lines get.
    """
    return _Reader(said=said, page=page).blocks()


@dataclass(frozen=True, kw_only=True)
class _Reader:
    said: Said
    page: Polygon

    @cached_property
    def _inside(self) -> tuple[int, str]:
        """Return what is in the fence that some models put around all they say, and where that begins."""
        fenced = _FENCED.fullmatch(self.said.text)
        return (fenced.start("inside"), fenced["inside"]) if fenced else (0, self.said.text)

    def blocks(self) -> tuple[Block, ...]:
        start, text = self._inside
        found: list[Block] = []
        done = 0
        # Formulas would lose their backslashes, and HTML is left as it is, by any reader of Markdown.
        for match in _FURTHER.finditer(text):
            found += self._of_markdown(text[done : match.start()], start + done)
            found += self._of_match(match, start)
            done = match.end()
        return (*found, *self._of_markdown(text[done:], start + done))

    def _of_match(self, match: re.Match[str], start: int) -> Iterator[Block]:
        sure = self.said.confidence(start + match.start(), start + match.end())
        if formula := match["bracket"] or match["dollar"]:
            yield from self._block(BlockKind.FORMULA, formula.strip().splitlines(), sure)
        else:
            yield from self._table(cells_of(match[0]), sure)

    def _of_markdown(self, text: str, start: int) -> Iterator[Block]:
        borders = [0]
        for line in text.splitlines(keepends=True):
            borders.append(borders[-1] + len(line))
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
        at = 0
        while at < len(tokens):
            token, end = tokens[at], _end_of(tokens, at)
            first, last = token.map or (0, 0)
            last = min(last, len(borders) - 1)
            sure = self.said.confidence(start + borders[min(first, last)], start + borders[last])
            yield from self._of_tokens(token, tokens[at:end], sure)
            at = end

    def _of_tokens(self, token: Token, own: Sequence[Token], sure: float | None) -> Iterator[Block]:
        match token.type:
            case "heading_open":
                yield from self._block(BlockKind.HEADING, _lines(own), sure, level=int(token.tag[1]))
            case "bullet_list_open" | "ordered_list_open":
                yield from self._list(own, sure)
            case "table_open":
                yield from self._table(_cells(own), sure)
            case "html_block":
                yield from self._block(BlockKind.TEXT, without_tags(token.content).splitlines(), sure)
            case "fence" | "code_block":
                yield from self._block(BlockKind.TEXT, token.content.splitlines(), sure)
            case _:
                yield from self._block(BlockKind.TEXT, _lines(own), sure)

    def _block(
        self, kind: BlockKind, texts: Sequence[str], sure: float | None, *, level: int | None = None
    ) -> Iterator[Block]:
        lines = [self._line(text, sure) for text in texts if text.strip()]
        if lines:
            yield Block(kind=kind, lines=tuple(lines), level=level)

    def _list(self, tokens: Sequence[Token], sure: float | None) -> Iterator[Block]:
        lines: list[Line] = []
        items: list[Item] = []
        for depth, texts in _items(tokens):
            first = len(lines)
            lines += [self._line(text, sure) for text in texts]
            items.append(Item(lines=tuple(range(first, len(lines))), depth=depth))
        if items:
            yield Block(kind=BlockKind.LIST, lines=tuple(lines), items=tuple(items))

    def _table(self, found: Sequence[HtmlCell], sure: float | None) -> Iterator[Block]:
        lines: list[Line] = []
        cells: list[Cell] = []
        for cell in found:
            first = len(lines)
            lines += [self._line(text, sure) for text in cell.text.splitlines() if text.strip()]
            if len(lines) > first:
                cells.append(
                    Cell(
                        row=cell.row,
                        column=cell.column,
                        lines=tuple(range(first, len(lines))),
                        row_span=cell.row_span,
                        column_span=cell.column_span,
                    )
                )
        if cells:
            yield Block(kind=BlockKind.TABLE, lines=tuple(lines), cells=tuple(cells))

    def _line(self, text: str, sure: float | None) -> Line:
        return Line(text=text.strip(), polygon=self.page, confidence=sure)


def _end_of(tokens: Sequence[Token], at: int) -> int:
    """Return where the part that begins with a token is over."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += tokens[index].nesting
        if depth <= 0:
            return index + 1
    return len(tokens)


def _lines(tokens: Sequence[Token]) -> list[str]:
    return [line for token in tokens if token.type == "inline" for line in _plain(token).splitlines()]


def _plain(token: Token) -> str:
    """Return an inline token's text without its emphasis, links and pictures."""
    parts: list[str] = []
    for child in token.children or ():
        match child.type:
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "image":
                pass
            case "html_inline":
                parts.append("\n" if child.content.lower().startswith("<br") else "")
            case _:
                parts.append(child.content)
    return "".join(parts)


def _items(tokens: Sequence[Token]) -> Iterator[tuple[int, list[str]]]:
    """Yield the items of a list, those inside others included, each with its depth and lines, mark first."""
    marks: list[Iterator[str]] = []
    item: list[str] = []
    depth = 0
    for token in tokens:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                marks.append(_marks(token))
            case "bullet_list_close" | "ordered_list_close":
                marks.pop()
            case "list_item_open":
                if item:
                    yield depth, item
                item, depth = [next(marks[-1])], len(marks) - 1
            case "inline" | "fence" | "code_block":
                texts = (_plain(token) if token.type == "inline" else token.content).splitlines()
                kept = [text for text in texts if text.strip()]
                if kept and len(item) == 1 and item[0].endswith(" "):
                    item = [item[0] + kept[0], *kept[1:]]
                else:
                    item += kept
    if item:
        yield depth, item


def _marks(token: Token) -> Iterator[str]:
    number = int(token.attrGet("start") or 1) if token.type == "ordered_list_open" else None
    while True:
        if number is None:
            yield _BULLET
        else:
            yield f"{number}. "
            number += 1


def _cells(tokens: Sequence[Token]) -> list[HtmlCell]:
    found: list[HtmlCell] = []
    row, column = -1, 0
    for token in tokens:
        if token.type == "tr_open":
            row, column = row + 1, 0
        elif token.type == "inline":
            found.append(HtmlCell(row=row, column=column, text=_plain(token)))
            column += 1
    return found
