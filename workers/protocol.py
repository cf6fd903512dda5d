"""What a supervisor and its runner say to each other: one JSON object a line, ids and numbers, never document text.

A chunk of a protected document comes with its password; no line is logged beyond its first 80 bytes, which are ids.
"""

import json
from dataclasses import asdict
from typing import Any, NewType
from uuid import UUID

from pipeline.domain.recognition import Flag, PageOutcome
from pipeline.domain.serialisation import flag_from_json, flag_to_json, source_from_json, source_to_json
from pipeline.ports.chunks import KnownPage, PageEntry

VERSION = 7
MAX_LINE_BYTES = 1024 * 1024
Message = NewType("Message", dict[str, Any])


class ProtocolError(Exception):
    """The other side says something that this version does not understand."""


def encode(kind: str, **fields: Any) -> bytes:
    """Return one message as a line."""
    return json.dumps({"v": VERSION, "kind": kind, **fields}, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Return the message of a line. Raises: ProtocolError."""
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"not a message: {line[:80]!r}") from error
    if not isinstance(message, dict) or message.get("v") != VERSION or "kind" not in message:
        raise ProtocolError(f"not a message of version {VERSION}: {line[:80]!r}")
    return Message(message)


def entry_to_json(entry: PageEntry) -> dict[str, Any]:
    """Return a ledger entry as it goes over the pipe."""
    flags = [flag_to_json(flag) for flag in entry.flags]
    return asdict(entry) | {"flags": flags, "source": source_to_json(entry.source)}


def entry_from_json(row: dict[str, Any]) -> PageEntry:
    """Return a ledger entry as it came over the pipe."""
    flags: tuple[Flag, ...] = tuple(flag_from_json(flag) for flag in row["flags"])
    outcome, source = PageOutcome(row["outcome"]), source_from_json(row["source"])
    return PageEntry(**(row | {"outcome": outcome, "flags": flags, "source": source}))


def known_to_json(page: KnownPage) -> dict[str, Any]:
    """Return where a page that was read before lies, as it goes over the pipe."""
    return asdict(page) | {"job_id": str(page.job_id)}


def known_from_json(row: dict[str, Any]) -> KnownPage:
    """Return it as it came over the pipe."""
    return KnownPage(**(row | {"job_id": UUID(row["job_id"])}))
