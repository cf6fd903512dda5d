"""What the messages of a runner mean."""

from pipeline.domain.batches import BatchBound
from pipeline.domain.errors import ErrorCode
from pipeline.ports.chunks import Measured
from pipeline.ports.devices import (
    BatchLowered,
    ChunkEnded,
    PageSeen,
    PagesFinished,
    PagesStarted,
    ReadingEvent,
    ReadingFailed,
    Tick,
)
from workers.protocol import Message, ProtocolError, entry_from_json


def event_of(message: Message) -> ReadingEvent:
    """Return what a message means. Raises: PipelineError, if it says that the chunk failed; ProtocolError."""
    match message["kind"]:
        case "reading":
            return PagesStarted(numbers=tuple(message["pages"]))
        case "generating":
            # That it is heard of is all that it says: a long page is no stall.
            return Tick()
        case "lowered":
            fields = {name: message[name] for name in ("pages", "pixels", "page_pixels", "page_tokens")}
            return BatchLowered(bound=BatchBound(**fields))
        case "seen":
            return PageSeen(digest=message["digest"])
        case "pages":
            return PagesFinished(pages=tuple(entry_from_json(row) for row in message["pages"]))
        case "ended":
            return ChunkEnded(
                stopped=message["stopped"],
                measured=measured_of(message),
                batch_pixels=message["batch_pixels"],
                batch_pages=message["batch_pages"],
            )
        case "failed":
            raise ReadingFailed(ErrorCode(message["code"]), message["message"], measured_of(message))
        case kind:
            raise ProtocolError(f"a message of an unknown kind: {kind}")


def measured_of(message: Message) -> Measured:
    """Return what a runner that is warm, or has come to the end of a chunk, says of its memory."""
    return Measured(**message["measured"])
