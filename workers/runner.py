"""The runner: the one process that holds a device. It loads the engine, reads one chunk at a time and stores the pages.

It talks with its supervisor alone, in JSON lines over its standard input and output, and knows no database and no
queue. It dies with its supervisor, and what it held dies with it.
"""

import argparse
import io
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import structlog

from pipeline.adapters.blank_pages import is_blank
from pipeline.adapters.documents.opener import FileOpener
from pipeline.adapters.objects import S3Objects
from pipeline.adapters.original_cache import OriginalCache
from pipeline.adapters.page_look import look_at
from pipeline.adapters.rendered_pages import RenderedPages
from pipeline.adapters.resident_memory import ResidentMemory, give_back_memory, resident_bytes
from pipeline.adapters.segments import fetch_page
from pipeline.adapters.smaller_pages import smaller
from pipeline.cores import keep_to
from pipeline.domain import keys
from pipeline.domain.batches import BatchBound
from pipeline.domain.document import ChunkId, JobId, PageClass
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.languages import Language, parse_language
from pipeline.domain.password import Password
from pipeline.domain.profiles import Profile
from pipeline.domain.recognition import PageResult
from pipeline.domain.serialisation import encode_segment
from pipeline.engines.registry import Asked, create, find, told
from pipeline.logs import configure_logs
from pipeline.ports.chunks import KnownPage, Measured, PageEntry, PageTask
from pipeline.ports.documents import DocumentOpener, OpenDocument
from pipeline.ports.engines import (
    GeneratingRecogniser,
    Generation,
    MemoryGauge,
    MemoryReading,
    Reads,
    Recogniser,
)
from pipeline.ports.objects import ObjectStore
from pipeline.settings import Settings, read_settings
from pipeline.starting import keep_for_good
from pipeline.steps.earlier_pages import EarlierPages, page_digest
from pipeline.steps.read_chunk import ChunkReader
from pipeline.steps.read_pages import PageReader, grouped
from workers.process import (
    DeviceLocked,
    die_with_parent,
    lock_device,
    stand_back,
)
from workers.protocol import Message, decode, encode, entry_to_json, known_from_json

log = structlog.get_logger()
SEGMENT_MEDIA_TYPE = "application/jsonl"
_ANSWER_S = 10.0
"""How long a runner waits to hear whether a page was read before; reading it takes no longer."""
EXIT_LOCKED = 4
EXIT_NO_ENGINE = 5
EXIT_DEVICE_BROKEN = 6


def entry_of(page: PageResult, segment_key: str, digest: str | None = None, *, tokens: int | None = None) -> PageEntry:
    """Return what the ledger keeps of a page.

    Args: digest is what it looks like, if others may be taken over from it; tokens are those generated for it.
    """
    return PageEntry(
        number=page.number,
        outcome=page.outcome,
        segment_key=segment_key,
        flags=page.flags,
        confidence=page.confidence,
        angle_deg=page.angle_deg,
        width_px=page.width_px,
        height_px=page.height_px,
        dpi=page.dpi,
        engine=page.provenance.engine.name,
        revision=page.provenance.engine.revision,
        elapsed_ms=page.provenance.elapsed_ms,
        error_code=page.error_code,
        error_detail=page.error_detail,
        digest=digest,
        source=page.provenance.source,
        tokens=tokens,
    )


class Inbox:
    """What the supervisor says, read by a thread of its own, so that "stop" is heard while a page is being read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._chunks: queue.Queue[Message | None] = queue.Queue(maxsize=2)
        self._answers: queue.Queue[Message] = queue.Queue()
        self.stop = threading.Event()
        threading.Thread(target=self._listen, name="inbox", daemon=True).start()

    def next_chunk(self) -> Message | None:
        """Wait for the next chunk; None when there will be no more."""
        return self._chunks.get()

    def answer(self, digest: str) -> KnownPage | None:
        """Wait a moment for what is known of a page that looks like this; None also where no answer comes."""
        by = time.monotonic() + _ANSWER_S
        with suppress(queue.Empty):
            while True:
                message = self._answers.get(timeout=max(0.0, by - time.monotonic()))
                if message["digest"] == digest:  # an answer that came too late is to an earlier question
                    return known_from_json(message["page"]) if message["page"] else None
        return None

    def _listen(self) -> None:
        for line in self._stream:
            message = decode(line)
            match message["kind"]:
                case "stop":
                    self.stop.set()
                case "chunk":
                    # Here and not when it is taken: a "stop" for this very chunk may be the next line.
                    self.stop.clear()
                    self._chunks.put(message)
                case "known":
                    self._answers.put(message)
                case "exit":
                    break
        self.stop.set()
        self._chunks.put(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Reads chunks with one engine."""

    engine: Recogniser
    objects: ObjectStore
    originals: OriginalCache
    opener_for: Callable[[Profile], DocumentOpener]
    flush_after: timedelta
    say: Callable[..., None]
    answer: Callable[[str], KnownPage | None]
    """Gives what is known of a page that was said to be seen."""
    stop: threading.Event

    def run(self, message: Message) -> None:
        """Read one chunk and say how it ended; errors leave this frame as text, so that they keep nothing alive."""
        gauge = self.engine.gauge or ResidentMemory()
        gauge.reset()
        before = gauge.read()
        failure: dict[str, str] | None = None
        end: dict[str, object] = {}
        try:
            end = self._read(message)
        except PipelineError as error:
            failure = {"code": error.code, "message": error.message}
        except MemoryError:
            failure = {"code": ErrorCode.OUT_OF_MEMORY, "message": "the host had no memory left for a page"}
        except Exception as error:  # the border of the process: its supervisor decides what follows
            log.exception("chunk_broke", chunk_id=message["chunk_id"])
            failure = {"code": ErrorCode.INTERNAL, "message": f"{type(error).__name__} while reading"}
        is_broken = failure is not None and failure["code"] == ErrorCode.DEVICE_BROKEN
        measured = asdict(_measured(gauge, before, gives_back=not is_broken))
        if failure:
            self.say("failed", **failure, measured=measured)
        else:
            self.say("ended", **end, measured=measured)
        if is_broken:
            # At once: in such a context every call fails or hangs, those that clean up included.
            os._exit(EXIT_DEVICE_BROKEN)

    def _read(self, message: Message) -> dict[str, object]:
        """Read the pages; say whether it was asked to stop before the last, and how large its largest batch was."""
        path = self.originals.path(message["sha256"], message["size_bytes"])
        tasks = [PageTask(number=number, page_class=PageClass(kind)) for number, kind in message["pages"]]
        job_id, chunk_id = JobId(UUID(message["job_id"])), ChunkId(UUID(message["chunk_id"]))
        finished = 0
        password = Password(message["password"]) if message["password"] else None
        opener = self.opener_for(Profile(message["profile"]))
        with opener.open(path, password=password) as document:
            earlier = self._earlier(message)
            reader = self._reader(message, document, earlier)
            results = earlier.remembered(reader.read(tasks)) if earlier else reader.read(tasks)
            groups = grouped(results, pages=message["flush_pages"], after=self.flush_after)
            for ordinal, group in enumerate(groups):
                key = keys.segment(job_id, chunk_id, message["attempt"], ordinal)
                self.objects.put(key, encode_segment(group), media_type=SEGMENT_MEDIA_TYPE)
                entries = [
                    entry_of(
                        page,
                        key,
                        earlier.digest_of(page) if earlier else None,
                        tokens=reader.tokens_of.get(page.number),
                    )
                    for page in group
                ]
                self.say("pages", pages=[entry_to_json(entry) for entry in entries])
                finished += len(group)
        return {
            "stopped": finished < len(tasks),
            "batch_pixels": reader.largest_pixels,
            "batch_pages": reader.largest_pages,
        }

    def _earlier(self, message: Message) -> EarlierPages | None:
        """Return what finds pages that were read before, if the job allows it and the engine would say the same."""
        engine = self.engine
        if (
            not message["reuse"]
            or message["visual_tokens"] is not None
            or engine.reads is Reads.SEQUENCE
            or not find(engine.identity.name).repeats_itself
        ):
            return None
        return EarlierPages(
            job_id=JobId(UUID(message["job_id"])),
            chunk_id=UUID(message["chunk_id"]),
            attempt=message["attempt"],
            digest=partial(
                page_digest,
                engine=engine.identity,
                languages=_languages(message),
                with_words=message["words"],
            ),
            ask=self._ask,
            fetch=partial(fetch_page, self.objects),
        )

    def _ask(self, digest: str) -> KnownPage | None:
        self.say("seen", digest=digest)
        return self.answer(digest)

    def _reader(self, message: Message, document: OpenDocument, earlier: EarlierPages | None) -> ChunkReader:
        bound = BatchBound(**message["bound"]) if message["bound"] else self.engine.batch
        if isinstance(self.engine, GeneratingRecogniser):
            self.engine.generating(
                Generation(
                    visual_tokens=message["visual_tokens"],
                    page_tokens=bound.page_tokens,
                    progressed=lambda tokens: self.say("generating", tokens=tokens),
                )
            )
        chunk_id = ChunkId(UUID(message["chunk_id"]))
        profile = Profile(message["profile"])
        ahead = RenderedPages(self.objects, JobId(UUID(message["job_id"])), chunk_id, message["dpi"], profile)
        pages = PageReader(
            document=document,
            engine=self.engine.identity,
            is_blank=is_blank,
            look=look_at,
            chunk_id=chunk_id,
            attempt=message["attempt"],
            dpi=message["dpi"],
            languages=_languages(message),
            with_words=message["words"],
            rendered=ahead.take if message["rendered_ahead"] else lambda _: None,
            earlier=earlier.find if earlier else lambda _: None,
        )
        return ChunkReader(
            pages=pages,
            engine=self.engine,
            bound=self.engine.batch.within(bound),
            smaller=smaller,
            stopped=self.stop.is_set,
            begun=lambda numbers: self.say("reading", pages=list(numbers)),
            lowered=lambda bound: self.say("lowered", **asdict(bound)),
        )


def _languages(message: Message) -> tuple[Language, ...]:
    return tuple(map(parse_language, message["languages"]))


def _measured(gauge: MemoryGauge, before: MemoryReading, *, gives_back: bool) -> Measured:
    peak = gauge.read()
    if gives_back:
        give_back_memory()
        gauge.give_back()
    return Measured(
        baseline_bytes=before.held_bytes,
        peak_bytes=peak.peak_bytes,
        after_bytes=gauge.read().held_bytes,
        reserved_bytes=peak.reserved_bytes,
        resident_bytes=resident_bytes(),
    )


def _private_stdout() -> BinaryIO:
    """Return the pipe to the supervisor; whatever else prints on standard output goes to standard error from now on."""
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(2), "wb"), line_buffering=True)
    return pipe


def _say_over(pipe: BinaryIO) -> Callable[..., None]:
    def say(kind: str, **fields: Any) -> None:
        pipe.write(encode(kind, **fields))

    return say


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="workers.runner", description=__doc__)
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="for temporary files; emptied at the start")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--niceness", type=int, default=0, help="behind other processes of the host; 0 to 19")
    parser.add_argument("--core", type=int, help="to keep to")
    parser.add_argument("--language", action="append", default=[], help="that it is to read; repeatable")
    parser.add_argument("--profile", type=Profile, choices=list(Profile), help="how much trouble it is to take")
    return parser.parse_args()


def main() -> int:
    """Run until the supervisor says so, closes the pipe or dies."""
    arguments = _arguments()
    die_with_parent(arguments.parent_pid)
    stand_back(arguments.niceness)
    if arguments.core is not None:
        keep_to(arguments.core)
    # A terminal's Ctrl-C is for the supervisor to act on, at a page border.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say = _say_over(_private_stdout())
    settings = read_settings()
    configure_logs(settings.log)
    try:
        # Kept open, and so held, until the process ends.
        _lock = lock_device(arguments.lock)
    except DeviceLocked as error:
        say("refused", message=str(error))
        return EXIT_LOCKED
    inbox = Inbox(sys.stdin.buffer)
    try:
        options = settings.devices.engine_options.get(arguments.engine, {})
        asked = Asked(languages=tuple(arguments.language), profile=arguments.profile)
        engine = create(arguments.engine, told(arguments.engine, options, asked))
        gauge = engine.gauge or ResidentMemory()
        engine.warm_up()
        keep_for_good()
    except PipelineError as error:
        say("no_engine", code=error.code, message=error.message)
        return EXIT_NO_ENGINE
    identity = engine.identity
    say(
        "ready",
        engine=identity.name,
        revision=identity.revision,
        settings_digest=identity.settings_digest,
        measured=asdict(_measured(gauge, gauge.read(), gives_back=True)),
    )
    _serve(settings, arguments.folder, engine, inbox, say)
    return 0


def _serve(settings: Settings, folder: Path, engine: Recogniser, inbox: Inbox, say: Callable[..., None]) -> None:
    objects = S3Objects(settings.objects)
    runner = Runner(
        engine=engine,
        objects=objects,
        originals=OriginalCache(folder, objects, max_bytes=2 * settings.limits.max_file_bytes),
        opener_for=lambda profile: FileOpener(settings.limits.for_documents(profile)),
        flush_after=settings.chunks.flush_after,
        say=say,
        answer=inbox.answer,
        stop=inbox.stop,
    )
    while (message := inbox.next_chunk()) is not None:
        with suppress(BrokenPipeError):
            runner.run(message)


if __name__ == "__main__":
    sys.exit(main())
