"""A whole page: where its text is, which way up it lies, what its lines say, and what of that is believed."""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace

import cv2
import numpy as np

from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.recognition import Flag, Line, Polygon, Word
from pipeline.engines.noise import believed
from pipeline.engines.ppocr import detector, orientation, reader
from pipeline.engines.ppocr.asking import Asking, answer
from pipeline.engines.ppocr.detector import detect
from pipeline.engines.ppocr.effort import USUAL, Effort
from pipeline.engines.ppocr.orientation import quarter_turns, turned_back
from pipeline.engines.ppocr.reader import Reading, read_lines, runs_down
from pipeline.engines.ppocr.runtime import PERHAPS, FloatArray, Net, Nets
from pipeline.engines.ppocr.words import part_of
from pipeline.ports.documents import PageImage, Pixels
from pipeline.ports.engines import ReadPage

MIN_CONFIDENCE = 0.5
"""Lines below are ornaments, stains and parts of pictures; also rapidocr's threshold."""
MANY_UNREAD = 0.1
WARM_UP_TEXT = "WARM UP 2468"


def read_pages(
    pages: Sequence[PageImage], nets: Nets, *, most_pixels: int, effort: Effort = USUAL
) -> list[ReadPage | RecognitionFailed]:
    """Return what stands on each page, or why it could not be read, as for `answer`."""
    return answer([_read(page, nets.alphabets, effort) for page in pages], nets, most_pixels=most_pixels)


def check(nets: Nets, *, most_pixels: int, effort: Effort = USUAL) -> None:
    """Read a page of the usual size with known text, by each recogniser alone.

    Raises: Transient (`engine_unavailable`), if one reads another text.
    """
    for one in effort.passes:
        _check(nets, most_pixels, replace(effort, passes=(one,)))


def _check(nets: Nets, most_pixels: int, effort: Effort) -> None:
    [found] = read_pages([_warm_up_page()], nets, most_pixels=most_pixels, effort=effort)
    if isinstance(found, RecognitionFailed):
        raise Transient(ErrorCode.ENGINE_UNAVAILABLE, found.message)
    text = " ".join(line.text for line in found.lines)
    if WARM_UP_TEXT not in text:
        what = f"read {text[:40]!r} on the warm-up page, not {WARM_UP_TEXT!r}"
        raise Transient(ErrorCode.ENGINE_UNAVAILABLE, what)


def settings_digest(effort: Effort = USUAL) -> str:
    """Return a short name of all that decides what is read beside the networks."""
    settings = {
        module.__name__: {name: value for name, value in vars(module).items() if name.isupper()}
        for module in (detector, reader, orientation)
    }
    settings[__name__] = {"MIN_CONFIDENCE": MIN_CONFIDENCE, "PERHAPS": PERHAPS} | effort.settings()
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def _read(page: PageImage, alphabets: Mapping[Net, Sequence[str]], effort: Effort) -> Asking[ReadPage]:
    known: dict[bytes, Reading] = {}

    def read(quads: Sequence[FloatArray]) -> Asking[list[Reading]]:
        new = {key: quad for quad in quads if (key := quad.tobytes()) not in known}
        readings = yield from read_lines(page.pixels, list(new.values()), effort.passes, alphabets)
        known.update(zip(new, readings, strict=True))
        return [known[quad.tobytes()] for quad in quads]

    quads = yield from detect(page.pixels, effort.side_limit)
    turns = yield from quarter_turns(quads, read)
    if turns:
        # Lines are told apart better when they run as most lines do.
        upright = yield from detect(np.ascontiguousarray(np.rot90(page.pixels, -turns)), effort.side_limit)
        quads = [turned_back(quad, turns, page.width_px, page.height_px) for quad in upright]
    said = yield from read(quads)
    lines, flags = _judged(quads, said)
    return ReadPage(number=page.number, lines=lines, flags=flags, angle_deg=90.0 * turns)


def _judged(quads: Sequence[FloatArray], readings: Sequence[Reading]) -> tuple[tuple[Line, ...], tuple[Flag, ...]]:
    legible = [
        _line(quad, reading)
        for quad, reading in zip(quads, readings, strict=True)
        if reading.confidence >= MIN_CONFIDENCE and reading.text.strip()
    ]
    lines, flags = believed(sorted(legible, key=lambda line: line.polygon[0][::-1]))
    unread = 1 - len(legible) / max(1, len(quads))
    if lines and unread >= MANY_UNREAD:
        flags = (*flags, Flag(name="regions_unread", score=unread))
    return lines, flags


def _line(quad: FloatArray, reading: Reading) -> Line:
    is_down = runs_down(quad)
    return Line(
        text=unicodedata.normalize("NFC", reading.text.strip()),
        polygon=_polygon(quad),
        confidence=_share(reading.confidence),
        words=tuple(
            Word(
                text=unicodedata.normalize("NFC", piece.text),
                polygon=_polygon(part_of(quad, piece.start, piece.end, runs_down=is_down)),
                confidence=_share(piece.confidence),
            )
            for piece in reading.pieces
        ),
    )


def _polygon(quad: FloatArray) -> Polygon:
    return tuple((float(x), float(y)) for x, y in quad)


def _share(confidence: float) -> float:
    return min(1.0, max(0.0, confidence))


def _warm_up_page() -> PageImage:
    pixels: Pixels = np.full((2339, 1654, 3), 255, np.uint8)
    for row in range(1, 4):
        cv2.putText(pixels, WARM_UP_TEXT, (150, 600 * row), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (0, 0, 0), 2, cv2.LINE_AA)
    return PageImage(number=1, pixels=pixels, dpi=200)
