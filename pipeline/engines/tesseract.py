"""The system's Tesseract, for languages that the default model can't read.

Each page is a process of its own with bounds of time and memory, so that nothing of it stays. Tesseract expects pages
that lie upright and straight. Source of the table that it writes: its manual page, and `api/renderer.cpp` (TSV).
"""

import hashlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pipeline.domain.batches import ONE_PAGE, BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.languages import parse_language
from pipeline.domain.recognition import EngineIdentity, Line, Polygon, Word
from pipeline.domain.writing import is_cjk
from pipeline.engines.noise import believed
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import ReadPage, Reads

NAME = "tesseract"
_ASKING_S = 20
_PAGE_SEGMENTATION = "3"
"""Fully automatic, without orientation."""
_WORD = "5"
_COLUMNS = 12
_SURE = 0.9
"""On seven clean pages, English and German, 82 to 100 % of the text has more; on seven in Fraktur 11 to 39 %."""


class TesseractOptions(BaseModel):
    """`devices.engine_options.tesseract`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)
    program: str = "tesseract"
    languages: tuple[str, ...] = Field(default=("en",), min_length=1, validate_default=True)
    """Of documents that name none; those that come first count most."""
    page_seconds: float = Field(default=120, gt=0)
    max_bytes: int = Field(default=2 * 1024**3, gt=0)
    """Address space of one process."""

    @field_validator("languages")
    @classmethod
    def _are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(parse_language(name).tesseract for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What the system has."""

    program: str
    version: str
    data: frozenset[str]
    """Names of languages that it has data for."""

    @classmethod
    def found(cls, program: str) -> "Installed":
        """Return what a program says of itself. Raises: Transient (`engine_unavailable`), with what to do."""
        path = shutil.which(program)
        if path is None:
            raise _unavailable(f"the program {program} is not installed: install tesseract-ocr and its language data")
        version, *_ = _asked(path, "--version").split("\n")
        _, *names = _asked(path, "--list-langs").split("\n")
        data = frozenset(name.strip() for name in names) - {"", "osd"}
        return cls(program=path, version=version.removeprefix("tesseract").strip(), data=data)

    def check(self, languages: Sequence[str]) -> None:
        """Raise Transient (`engine_unavailable`), if it lacks the data for one of them."""
        if missing := [name for name in languages if name not in self.data]:
            there = ", ".join(sorted(self.data)) or "none"
            raise _unavailable(f"Tesseract has no data for {', '.join(missing)}, only for: {there}")


class TesseractEngine:
    """Reads one page at a time, each in a process of its own. Safe between threads."""

    def __init__(self, options: TesseractOptions) -> None:
        self._options = options

    @property
    def reads(self) -> Reads:
        """Return that it takes one page at a time."""
        return Reads.PAGE

    @property
    def batch(self) -> BatchBound:
        """Return that a batch is one page."""
        return ONE_PAGE

    @property
    def gauge(self) -> None:
        """Return that it has no accelerator."""

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is, with the languages that it reads. Raises: Transient (`engine_unavailable`)."""
        said = "+".join((_PAGE_SEGMENTATION, *self._options.languages))
        digest = hashlib.sha256(said.encode()).hexdigest()[:16]
        return EngineIdentity(name=NAME, revision=self._installed.version, settings_digest=digest)

    def warm_up(self) -> None:
        """See that the program is there with its data. Raises: Transient (`engine_unavailable`)."""
        self._installed.check(self._options.languages)

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield each page's lines; after a page that failed, the iterator goes on with the next one.

        Raises: RecognitionFailed (`engine_failed`).
        """
        return map(self._read, pages)

    @cached_property
    def _installed(self) -> Installed:
        return Installed.found(self._options.program)

    def _read(self, page: PageImage) -> ReadPage:
        number, dpi, picture = page.number, round(page.dpi), _as_pnm(page)
        del page  # so that no traceback keeps its pixels
        try:
            lines, flags = believed(list(lines_of(self._table(picture, dpi))))
        except RecognitionFailed as error:
            raise RecognitionFailed(error.code, f"page {number}: {error.message}") from None
        return ReadPage(number=number, lines=lines, flags=flags, sure=_SURE)

    def _table(self, picture: bytes, dpi: int) -> str:
        """Return what Tesseract says of a picture. Raises: RecognitionFailed (`engine_failed`)."""
        seconds = self._options.page_seconds
        command = [self._installed.program, "stdin", "stdout", "-l", "+".join(self._options.languages)]
        command += ["--psm", _PAGE_SEGMENTATION, "--dpi", str(dpi), "tsv"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment()
        )
        try:
            # It waits for its picture; and where this process dies meanwhile, the bound of its time ends it.
            resource.prlimit(process.pid, resource.RLIMIT_AS, (self._options.max_bytes,) * 2)
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (int(seconds) + 1,) * 2)
            output, errors = process.communicate(picture, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise _failed(f"Tesseract was not done after {seconds:g} s") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        if process.returncode:
            said = errors.decode(errors="replace").strip()[-300:]
            raise _failed(f"Tesseract ended with status {process.returncode}: {said}")
        return output.decode(errors="replace")


def lines_of(table: str) -> Iterator[Line]:
    """Yield the lines of a TSV table: a head, then a row for each page, block, paragraph, line and word.

    Raises: RecognitionFailed (`engine_failed`), if it is no such table.
    """
    _, *rows = table.rstrip("\n").split("\n")
    box: Polygon = ()
    words: list[Word] = []
    for row in rows:
        level, *cells = row.split("\t")
        if len(cells) != _COLUMNS - 1:
            raise _failed(f"Tesseract wrote a row that is none of its table: {row[:60]!r}")
        left, top, across, down = map(float, cells[5:9])
        corners = ((left, top), (left + across, top), (left + across, top + down), (left, top + down))
        if level == _WORD and (said := cells[-1].strip()):
            confidence = min(1.0, max(0.0, float(cells[-2]) / 100))
            words.append(Word(text=said, polygon=corners, confidence=confidence))
        elif level != _WORD:
            yield from _line(box, words)
            box, words = corners, []
    yield from _line(box, words)


def _line(box: Polygon, words: Sequence[Word]) -> Iterator[Line]:
    if words:
        letters = sum(len(word.text) for word in words)
        sure = sum((word.confidence or 0.0) * len(word.text) for word in words) / letters
        text = _spaced([word.text for word in words])
        yield Line(text=text, polygon=box, confidence=min(1.0, sure), words=tuple(words))


def _spaced(words: Sequence[str]) -> str:
    """Return words with spaces between, but for Chinese characters, each of which is a word to Tesseract."""
    text = words[0]
    for word in words[1:]:
        text += word if is_cjk(text[-1]) and is_cjk(word[0]) else f" {word}"
    return text


def _as_pnm(page: PageImage) -> bytes:
    return f"P6 {page.width_px} {page.height_px} 255\n".encode() + page.pixels.tobytes()


def _asked(program: str, question: str) -> str:
    try:
        answer = subprocess.run(
            [program, question], capture_output=True, text=True, timeout=_ASKING_S, check=True, env=_environment()
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise _unavailable(f"{program} {question} fails: {error}") from error
    return answer.stdout or answer.stderr


def _environment() -> dict[str, str]:
    # More threads than one are slower in total, and there is one of us for each core.
    return {**os.environ, "OMP_THREAD_LIMIT": "1"}


def _failed(message: str) -> RecognitionFailed:
    return RecognitionFailed(ErrorCode.ENGINE_FAILED, message)


def _unavailable(message: str) -> Transient:
    return Transient(ErrorCode.ENGINE_UNAVAILABLE, message)
