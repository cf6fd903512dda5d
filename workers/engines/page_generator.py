"""`deepseek-ocr2`, `qianfan-ocr`, `unlimited-ocr`: models that write down a whole page, or several in one sequence.

What they are told stands in `generators.py`, how each is shown a page in `page_models.py`, how text is made in
`generating.py`, what it means in `pipeline/engines/generated`.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import numpy as np
import structlog
import torch

from pipeline.domain.batches import ANY, BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.model_shapes import ModelShape, shape_of
from pipeline.domain.recognition import EngineIdentity
from pipeline.domain.sequence_memory import tiles_within
from pipeline.engines.failures import failure_of
from pipeline.engines.generated.page import page_of
from pipeline.engines.generated.sequence import pages_of
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import Generation, MemoryGauge, ReadPage, Reads
from workers.engines.device import NAMES, gauge_of, give_back, precision_of, read_together, this_device
from workers.engines.generating import Bounds, Generated, generate
from workers.engines.generators import Family, GeneratorOptions, UnlimitedOcrOptions, most_tiles
from workers.engines.model_folder import fetched
from workers.engines.page_models import PageModel, load

log = structlog.get_logger()
Found = TypeVar("Found")
_WARM_UP_TOKENS = 2
_WARM_UP_PIXELS = {"cpu": (1169, 827, 3), "cuda": (2339, 1654, 3)}
"""A4 at 100 and 200 dpi: on an accelerator, all kernels of a usual page are to be loaded."""


class PageGeneratorEngine:
    """Reads with one of these models. One per process; not safe between threads."""

    def __init__(self, family: Family, options: GeneratorOptions, *, device: torch.device | None = None) -> None:
        """Args: device is by default what this process was given."""
        self._family, self._options = family, options
        self._device = device or this_device()
        self._loaded: _Loaded | None = None
        self._wanted = Generation()

    @property
    def reads(self) -> Reads:
        """Return whether several pages are sequences of their own or one."""
        return self._family.reads

    @property
    def batch(self) -> BatchBound:
        """Return what it was told."""
        return BatchBound(pages=self._options.batch_pages, pixels=ANY.pixels)

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is, with the hash of its files. Raises: Transient (`engine_unavailable`)."""
        return self._load().identity

    @property
    def gauge(self) -> MemoryGauge | None:
        """Return what measures its accelerator."""
        return gauge_of(self._device)

    def generating(self, wanted: Generation) -> None:
        """Generate like this from now on."""
        self._wanted = wanted

    def warm_up(self) -> None:
        """Load the model and read an empty page; calling twice is safe. Raises: Transient (`engine_unavailable`)."""
        self._load()

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield what the model says of each page, in the order given.

        Pages of one sequence whose text can't be bound to them are read again, each alone.

        Raises: RecognitionFailed (`engine_failed`, `out_of_memory`), which holds on to no pixels and no tensors;
            Transient (`device_broken`).
        """
        return read_together(pages, self._found, self._device)

    def _found(self, pages: Sequence[PageImage]) -> Sequence[ReadPage | RecognitionFailed]:
        if self._family.reads is Reads.SEQUENCE and len(pages) > 1:
            bound = self._tried(lambda loaded: loaded.sequence(pages, self._wanted))
            if isinstance(bound, RecognitionFailed):
                return [bound] * len(pages)
            if isinstance(bound, int):
                return [self._alone(page, in_vain=bound // len(pages)) for page in pages]
            return bound
        found = self._tried(lambda loaded: loaded.batch(pages, self._wanted))
        return [found] * len(pages) if isinstance(found, RecognitionFailed) else found

    def _alone(self, page: PageImage, *, in_vain: int) -> ReadPage | RecognitionFailed:
        found = self._tried(lambda loaded: loaded.batch([page], self._wanted)[0])
        give_back(self._device, [found])
        if isinstance(found, RecognitionFailed):
            return found
        return replace(found, tokens=(found.tokens or 0) + in_vain)

    def _tried(self, reading: "Callable[[_Loaded], Found]") -> Found | RecognitionFailed:
        try:
            return reading(self._load())
        except Transient:
            raise
        except Exception as error:
            return failure_of(error)

    def _load(self) -> "_Loaded":
        if self._loaded is None:
            try:
                self._loaded = _Loaded(self._family, self._options, self._device)
                empty = np.full(_WARM_UP_PIXELS[self._device.type], 255, np.uint8)
                page = PageImage(number=1, pixels=empty, dpi=100)
                self._loaded.batch([page], Generation(page_tokens=_WARM_UP_TOKENS))
            except (OSError, ValueError, RuntimeError) as error:
                # RuntimeError: weights of other sizes than the configuration says, or no memory for them.
                self._loaded = None
                raise Transient(ErrorCode.ENGINE_UNAVAILABLE, f"{self._options.model}: {error}") from error
        return self._loaded


class _Loaded:
    def __init__(self, family: Family, options: GeneratorOptions, device: torch.device) -> None:
        self._options = options
        files, precision = fetched(options), precision_of(device)
        family.config(options)
        self._model: PageModel = load(family.name, files.folder, options, device, precision)
        self._shape: ModelShape = shape_of(self._model.model.config.to_dict())
        runtime = f"torch-{version('torch')}-{device.type}-{NAMES[precision]}"
        told = options.model_dump_json(exclude={"model", "revision", "digest", "online"})
        self.identity = EngineIdentity(
            name=family.name,
            revision=f"{_name(options)}.{files.digest[:12]}-{runtime}",
            settings_digest=hashlib.sha256(told.encode()).hexdigest()[:16],
        )

    def batch(self, pages: Sequence[PageImage], wanted: Generation) -> list[ReadPage]:
        """Return what the model says of each page in a sequence of its own. Raises: whatever the model raises."""
        prompts = [self._model.asked([page.pixels], self._tiles(page, wanted)) for page in pages]
        bounds = self._bounds(self._tokens(wanted), self._options.no_repeat_window)
        made = generate(self._model, prompts, bounds, wanted.progressed)
        return [
            replace(page_of(page, one.said, is_whole=one.is_whole), tokens=one.tokens)
            for page, one in zip(pages, made, strict=True)
        ]

    def sequence(self, pages: Sequence[PageImage], wanted: Generation) -> list[ReadPage] | int:
        """Return what the model says of all pages in one sequence; how many tokens, if of another number of pages.

        Raises: whatever the model raises.
        """
        assert isinstance(self._options, UnlimitedOcrOptions)  # noqa: S101 - the only family of this kind
        prompt = self._model.asked([page.pixels for page in pages], 0)
        bounds = self._bounds(self._tokens(wanted) * len(pages), self._options.sequence_window)
        made: Generated = generate(self._model, [prompt], bounds, wanted.progressed)[0]
        found = pages_of(pages, made.said, is_whole=made.is_whole, tokens=made.tokens)
        if found is None:
            log.info("sequence_not_bound", pages=len(pages), tokens=made.tokens, ended=made.is_whole)
            return made.tokens
        return found

    def _tiles(self, page: PageImage, wanted: Generation) -> int:
        fills = tiles_within(self._shape, page.width_px * page.height_px)
        return min(fills, most_tiles(self._options, wanted.visual_tokens))

    def _tokens(self, wanted: Generation) -> int:
        return min(self._options.max_new_tokens, wanted.page_tokens or self._options.max_new_tokens)

    def _bounds(self, tokens: int, window: int) -> Bounds:
        return Bounds(max_new_tokens=tokens, no_repeat_ngram=self._options.no_repeat_ngram, no_repeat_window=window)


def _name(options: GeneratorOptions) -> str:
    return Path(options.model).name if options.revision is None else f"{options.model}@{options.revision[:12]}"
