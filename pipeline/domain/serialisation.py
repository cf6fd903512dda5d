"""Pages as JSON, and segments: finished pages as JSON Lines, one page a line, the form in which they lie in the store.

What is written is normalised first (`normalised`), so that reading it back and writing it again gives the same bytes.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.recognition import (
    Block,
    BlockKind,
    Cell,
    EngineIdentity,
    Flag,
    Item,
    Line,
    PageOutcome,
    PageResult,
    PageSource,
    Polygon,
    Provenance,
    Word,
)

_BREAKS = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text as one line without control characters, fit for UTF-8: tabs and breaks are spaces."""
    text = _CONTROLS.sub("", _BREAKS.sub(" ", text))
    if _SURROGATES.search(text):
        # Halves of one character come together again; a half alone can't be encoded.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def normalised(page: PageResult) -> PageResult:
    """Return the page as it will be read back: printable text, coordinates to 0.1 px, scores to four decimals."""
    return replace(
        page,
        dpi=_rounded(page.dpi, 2),
        angle_deg=_rounded(page.angle_deg, 2),
        blocks=tuple(replace(block, lines=tuple(map(_normalised_line, block.lines))) for block in page.blocks),
        flags=tuple(replace(flag, score=_rounded_score(flag.score)) for flag in page.flags),
        error_detail=printable(page.error_detail or "") or None,
        source_file=printable(page.source_file or "") or None,
    )


def to_json(page: PageResult) -> dict[str, Any]:
    """Return the page as JSON values, in the order in which people read them, normalised."""
    page = normalised(page)
    engine = page.provenance.engine
    return {
        "number": page.number,
        "source_file": page.source_file,
        "outcome": page.outcome.value,
        "width_px": page.width_px,
        "height_px": page.height_px,
        "dpi": page.dpi,
        "angle_deg": page.angle_deg,
        "confidence": _rounded_score(page.confidence),
        "text": page.text,
        "flags": [flag_to_json(flag) for flag in page.flags],
        "blocks": [_block_to_json(block) for block in page.blocks],
        "engine": {
            "name": engine.name,
            "revision": engine.revision,
            "settings_digest": engine.settings_digest,
        },
        "chunk_id": str(page.provenance.chunk_id),
        "attempt": page.provenance.attempt,
        "elapsed_ms": page.provenance.elapsed_ms,
        "reused": source_to_json(page.provenance.source),
        "error": {"code": page.error_code, "message": page.error_detail or ""} if page.error_code else None,
    }


def from_json(page: Mapping[str, Any]) -> PageResult:
    """Return the page that `to_json` wrote; keys of later versions, and those that follow from others, are not read.

    Raises: PipelineError (`ledger_broken`), naming what is missing or wrong.
    """
    try:
        return _page_from_json(page)
    except KeyError as missing:
        raise PipelineError(ErrorCode.LEDGER_BROKEN, f"a stored page lacks {missing}") from missing
    except (TypeError, ValueError) as wrong:
        raise PipelineError(ErrorCode.LEDGER_BROKEN, f"a stored page can't be read: {wrong}") from wrong


def flag_to_json(flag: Flag) -> dict[str, Any]:
    """Return a page's or document's flag as JSON values."""
    return {"name": flag.name, "score": _rounded_score(flag.score)}


def flag_from_json(flag: Mapping[str, Any]) -> Flag:
    """Return the flag that `flag_to_json` wrote. Raises: KeyError, TypeError or ValueError, if it is not one."""
    score = flag["score"]
    return Flag(name=_take(flag, "name", str), score=None if score is None else _take(flag, "score", float))


def encode_page(page: PageResult) -> bytes:
    """Return the page as one line of a segment, its end included."""
    return json.dumps(to_json(page), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def encode_segment(pages: Iterable[PageResult]) -> bytes:
    """Return finished pages as one segment; the same pages always give the same bytes."""
    return b"".join(map(encode_page, pages))


def decode_segment(content: bytes | Iterable[bytes]) -> Iterator[PageResult]:
    """Yield the pages of a segment in its order, holding one at a time; the pieces may be cut anywhere.

    Raises: PipelineError (`ledger_broken`), if the segment is cut short or holds anything but pages.
    """
    for line in _lines([content] if isinstance(content, bytes) else content):
        try:
            page = json.loads(line)
        except ValueError as wrong:
            raise PipelineError(ErrorCode.LEDGER_BROKEN, f"a stored page is not JSON: {wrong}") from wrong
        yield from_json(page)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    open_line: list[bytes] = []
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            yield b"".join([*open_line, end])
            open_line.clear()
        if rest:
            open_line.append(rest)
    if open_line:
        raise PipelineError(ErrorCode.LEDGER_BROKEN, "a segment is cut short: its last line has no end")


def _rounded(value: float, digits: int) -> float:
    # Adding 0.0 turns -0.0 into 0.0.
    return round(float(value), digits) + 0.0


def _rounded_score(score: float | None) -> float | None:
    return None if score is None else _rounded(score, 4)


def _normalised_line(line: Line) -> Line:
    return Line(
        text=printable(line.text),
        polygon=_rounded_polygon(line.polygon),
        confidence=_rounded_score(line.confidence),
        words=tuple(map(_normalised_word, line.words)),
    )


def _normalised_word(word: Word) -> Word:
    return Word(
        text=printable(word.text),
        polygon=_rounded_polygon(word.polygon),
        confidence=_rounded_score(word.confidence),
    )


def _rounded_polygon(polygon: Polygon) -> Polygon:
    return tuple((_rounded(x, 1), _rounded(y, 1)) for x, y in polygon)


def _polygon_to_json(polygon: Polygon) -> list[list[float]]:
    return [[x, y] for x, y in polygon]


def _block_to_json(block: Block) -> dict[str, Any]:
    return {
        "kind": block.kind.value,
        "level": block.level,
        "polygon": _polygon_to_json(block.polygon),
        "text": block.text,
        "joined": block.joined,
        "lines": [_line_to_json(line) for line in block.lines],
        "items": [
            {"depth": item.depth, "text": block.text_of(item), "lines": list(item.lines)} for item in block.items
        ],
        "cells": [
            {
                "row": cell.row,
                "column": cell.column,
                "row_span": cell.row_span,
                "column_span": cell.column_span,
                "text": block.text_of(cell),
                "lines": list(cell.lines),
            }
            for cell in block.cells
        ],
    }


def _line_to_json(line: Line) -> dict[str, Any]:
    return _placed_text(line) | {"words": [_placed_text(word) for word in line.words]}


def _placed_text(piece: Line | Word) -> dict[str, Any]:
    return {"text": piece.text, "polygon": _polygon_to_json(piece.polygon), "confidence": piece.confidence}


def _take(source: object, name: str, kind: type) -> Any:
    """Return a value of the given type; a whole number is a float, too, but true is not a number."""
    if not isinstance(source, Mapping):
        raise TypeError(f"{name!r} should stand in an object, not in {source!r:.40}")
    value = source[name]
    kinds = (int, float) if kind is float else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name!r} is {value!r:.40}")
    return value


def _page_from_json(page: Mapping[str, Any]) -> PageResult:
    error = _take(page, "error", dict) if page["error"] is not None else None
    return PageResult(
        number=_take(page, "number", int),
        outcome=PageOutcome(page["outcome"]),
        width_px=_take(page, "width_px", int),
        height_px=_take(page, "height_px", int),
        dpi=_take(page, "dpi", float),
        angle_deg=_take(page, "angle_deg", float),
        blocks=tuple(map(_block_from_json, _take(page, "blocks", list))),
        flags=tuple(map(flag_from_json, _take(page, "flags", list))),
        provenance=_provenance_from_json(page),
        error_code=_take(error, "code", str) if error is not None else None,
        error_detail=(_take(error, "message", str) or None) if error is not None else None,
        source_file=_take(page, "source_file", str) if page.get("source_file") is not None else None,
    )


def _provenance_from_json(page: Mapping[str, Any]) -> Provenance:
    engine = _take(page, "engine", dict)
    return Provenance(
        engine=EngineIdentity(
            name=_take(engine, "name", str),
            revision=_take(engine, "revision", str),
            settings_digest=_take(engine, "settings_digest", str),
        ),
        chunk_id=UUID(_take(page, "chunk_id", str)),
        attempt=_take(page, "attempt", int),
        elapsed_ms=_take(page, "elapsed_ms", int),
        source=source_from_json(page.get("reused")),
    )


def source_to_json(source: PageSource | None) -> dict[str, Any] | None:
    """Return where a page was taken over from as JSON values."""
    return {"job_id": str(source.job_id), "number": source.number} if source else None


def source_from_json(source: Mapping[str, Any] | None) -> PageSource | None:
    """Return what `source_to_json` wrote; pages of earlier versions say nothing. Raises: KeyError, TypeError."""
    if source is None:
        return None
    return PageSource(job_id=UUID(_take(source, "job_id", str)), number=_take(source, "number", int))


def _block_from_json(block: Mapping[str, Any]) -> Block:
    # Pages written as version 1.0 have neither levels nor items nor cells.
    return Block(
        kind=BlockKind(block["kind"]),
        lines=tuple(map(_line_from_json, _take(block, "lines", list))),
        level=_take(block, "level", int) if block.get("level") is not None else None,
        items=tuple(map(_item_from_json, block.get("items", ()))),
        cells=tuple(map(_cell_from_json, block.get("cells", ()))),
    )


def _item_from_json(item: Mapping[str, Any]) -> Item:
    return Item(lines=tuple(_take(item, "lines", list)), depth=_take(item, "depth", int))


def _cell_from_json(cell: Mapping[str, Any]) -> Cell:
    return Cell(
        row=_take(cell, "row", int),
        column=_take(cell, "column", int),
        row_span=_take(cell, "row_span", int),
        column_span=_take(cell, "column_span", int),
        lines=tuple(_take(cell, "lines", list)),
    )


def _line_from_json(line: Mapping[str, Any]) -> Line:
    words = tuple(Word(**_placed_from_json(word)) for word in line.get("words", ()))
    return Line(**_placed_from_json(line), words=words)


def _placed_from_json(piece: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "text": _take(piece, "text", str),
        "polygon": tuple((float(x), float(y)) for x, y in _take(piece, "polygon", list)),
        "confidence": _take(piece, "confidence", float) if piece["confidence"] is not None else None,
    }
