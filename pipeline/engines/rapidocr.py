"""The CPU engine: RapidOCR's PP-OCRv6 small networks, run by our own code on one thread, with no network ever.

The wheel of rapidocr serves as the carrier of the weights and is not imported: its pipeline downloads what it misses,
shrinks pages before it cuts lines out of them, and sorts boxes into rows across columns.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.recognition import EngineIdentity, Flag, Line
from pipeline.engines.noise import believed
from pipeline.engines.ppocr import detector, orientation, reader
from pipeline.engines.ppocr.detector import detect
from pipeline.engines.ppocr.orientation import quarter_turns, turned_back
from pipeline.engines.ppocr.reader import LineReader, Reading
from pipeline.engines.ppocr.runtime import FloatArray, Runtime, by_preference, load_net, this_cpu
from pipeline.engines.ppocr.weights import REVISION, Weights, installed_folder, verified_weights
from pipeline.ports.documents import PageImage, Pixels
from pipeline.ports.engines import ReadPage, Reads

NAME = "rapidocr"
MIN_CONFIDENCE = 0.5
"""Lines below are ornaments, stains and parts of pictures; also rapidocr's threshold."""
MANY_UNREAD = 0.1
WARM_UP_TEXT = "WARM UP 2468"


class RapidOcrEngine:
    """Reads Chinese, English and other Latin print. One per process, made after the fork; not safe between threads."""

    def __init__(self, *, folder: Path | None = None, runtimes: Sequence[Runtime] | None = None) -> None:
        """Args: folder holds the networks, by default the installed wheel's; runtimes are tried in the given order."""
        self._folder = folder
        self._runtimes = runtimes
        self._loaded: _Loaded | None = None

    @property
    def reads(self) -> Reads:
        """Return that it takes one page at a time."""
        return Reads.PAGE

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is, with the runtime that it settled on. Raises: Transient (`engine_unavailable`)."""
        return self._load().identity

    def warm_up(self) -> None:
        """Load the networks and read a page of the usual size; calling twice is safe.

        Raises: Transient (`engine_unavailable`).
        """
        self._load()

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield each page's lines; after a page that failed, the iterator goes on with the next one.

        Raises: RecognitionFailed (`engine_failed`, `out_of_memory`), which holds on to no pixels.
        """
        return map(self._load().read, pages)

    def _load(self) -> "_Loaded":
        if self._loaded is None:
            cv2.setNumThreads(1)
            weights = verified_weights(self._folder or installed_folder())
            self._loaded = _first_that_works(weights, self._runtimes or by_preference(this_cpu()))
        return self._loaded


class _Loaded:
    """Both networks in one runtime."""

    def __init__(self, weights: Weights, runtime: Runtime) -> None:
        self._detector = load_net(weights.detector, runtime)
        recogniser = load_net(weights.recogniser, runtime)
        self._reader = LineReader(recogniser)
        self.identity = EngineIdentity(
            name=NAME,
            revision=f"{REVISION}-{runtime.release}-{recogniser.precision}",
            settings_digest=_settings_digest(),
        )

    def read(self, page: PageImage) -> ReadPage:
        """Return what stands on a page. Raises: RecognitionFailed."""
        number = page.number
        try:
            return self._read(page)
        except MemoryError:
            code, why = ErrorCode.OUT_OF_MEMORY, "no memory for the page"
        except Exception as error:
            code, why = _judged(error)
        # Raised out here, and with the page let go, so that no traceback keeps its pixels.
        del page
        raise RecognitionFailed(code, f"page {number}: {why}")

    def _read(self, page: PageImage) -> ReadPage:
        known: dict[bytes, Reading] = {}

        def read(quad: FloatArray) -> Reading:
            key = quad.tobytes()
            if key not in known:
                known[key] = self._reader.read(page.pixels, quad)
            return known[key]

        quads = detect(self._detector, page.pixels)
        turns = quarter_turns(quads, read)
        if turns:
            # Lines are told apart better when they run as most lines do.
            upright = detect(self._detector, np.ascontiguousarray(np.rot90(page.pixels, -turns)))
            quads = [turned_back(quad, turns, page.width_px, page.height_px) for quad in upright]
        found = [(quad, read(quad)) for quad in quads]
        legible = [_line(quad, said) for quad, said in found if said.confidence >= MIN_CONFIDENCE and said.text.strip()]
        lines, flags = believed(sorted(legible, key=lambda line: line.polygon[0][::-1]))
        unread = 1 - len(legible) / max(1, len(found))
        if lines and unread >= MANY_UNREAD:
            flags = (*flags, Flag(name="regions_unread", score=unread))
        return ReadPage(number=page.number, lines=lines, flags=flags, angle_deg=90.0 * turns)


def _line(quad: FloatArray, reading: Reading) -> Line:
    return Line(
        text=unicodedata.normalize("NFC", reading.text.strip()),
        polygon=tuple((float(x), float(y)) for x, y in quad),
        confidence=min(1.0, max(0.0, reading.confidence)),
    )


def _judged(error: Exception) -> tuple[ErrorCode, str]:
    """Return code and cause of what native code raised; its message names shapes and files, never text."""
    why = f"{type(error).__name__}: {str(error).strip()[:300]}"
    starved = any(
        sign in why.lower() for sign in ("bad_alloc", "out of memory", "insufficient memory", "failed to allocate")
    )
    return (ErrorCode.OUT_OF_MEMORY if starved else ErrorCode.ENGINE_FAILED), why


def _first_that_works(weights: Weights, runtimes: Sequence[Runtime]) -> _Loaded:
    """Return the networks in the first runtime that reads the warm-up page.

    Raises: Transient (`engine_unavailable`), with what each runtime said.
    """
    failures = []
    for runtime in runtimes:
        try:
            loaded = _Loaded(weights, runtime)
            text = " ".join(line.text for line in loaded.read(_warm_up_page()).lines)
        except Exception as error:
            failures.append(f"{runtime}: {type(error).__name__}: {str(error).strip()[:300]}")
            continue
        if WARM_UP_TEXT in text:
            return loaded
        failures.append(f"{runtime}: read {text[:40]!r} on the warm-up page, not {WARM_UP_TEXT!r}")
    raise Transient(
        ErrorCode.ENGINE_UNAVAILABLE,
        f"no runtime works ({'; '.join(failures)}); install one: pip install 'muniment[cpu]'",
    )


def _warm_up_page() -> PageImage:
    pixels: Pixels = np.full((2339, 1654, 3), 255, np.uint8)
    for row in range(1, 4):
        cv2.putText(pixels, WARM_UP_TEXT, (150, 600 * row), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (0, 0, 0), 2, cv2.LINE_AA)
    return PageImage(number=1, pixels=pixels, dpi=200)


def _settings_digest() -> str:
    settings = {
        module.__name__: {name: value for name, value in vars(module).items() if name.isupper()}
        for module in (detector, reader, orientation)
    }
    settings[__name__] = {"MIN_CONFIDENCE": MIN_CONFIDENCE}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
