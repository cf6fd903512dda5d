"""Writes `document.json`, a page at a time; `pipeline/schemas/document.schema.json` says what is in it."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from pipeline import __version__
from pipeline.adapters.writers.page_check import checked
from pipeline.domain.assembly import DocumentHeader
from pipeline.domain.recognition import PageOutcome, PageResult
from pipeline.domain.serialisation import encode_page, flag_to_json, printable

SCHEMA_VERSION = "1.2"


def write_json(header: DocumentHeader, pages: Iterable[PageResult]) -> Iterator[bytes]:
    """Yield the document as one JSON object in UTF-8, each page on a line of its own.

    Raises: PipelineError (`ledger_broken`), if the pages are not those of the header; what was yielded is void then.
    """
    opening = json.dumps(_header_json(header), ensure_ascii=False, allow_nan=False, indent=1)
    yield opening.removesuffix("\n}").encode() + b',\n "pages": [\n'
    for position, page in enumerate(checked(header, pages)):
        separator = b",\n" if position else b""
        yield separator + encode_page(page).rstrip(b"\n")
    yield b"\n]}\n"


def _header_json(header: DocumentHeader) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "job_id": str(header.job_id),
        "source": {
            "name": printable(header.source_name),
            "sha256": header.sha256,
            "media_type": header.media_type,
            "size_bytes": header.size_bytes,
            "pages": None if header.selected is None else str(header.selected),
        },
        "page_count": header.page_count,
        "outcomes": {outcome.value: header.outcomes.get(outcome, 0) for outcome in PageOutcome},
        "flags": [flag_to_json(flag) for flag in header.flags],
        "page_flags": dict(header.page_flags),
        "created_at": _iso(header.created_at),
        "finished_at": _iso(header.finished_at),
        "generator": {"name": "muniment", "version": __version__},
    }


def _iso(time: datetime) -> str:
    """Return an RFC 3339 time. Raises: ValueError, if it has no zone."""
    if time.tzinfo is None:
        raise ValueError(f"a time in a document needs a zone: {time}")
    return time.isoformat(timespec="milliseconds")
