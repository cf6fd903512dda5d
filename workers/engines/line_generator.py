"""`transformers`: any model that generates the text of one line from its picture (TrOCR and its like), by its folder.

The lines are found by PP-OCR's detector, several pages at once; the model reads them in batches.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import cv2
import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, DirectoryPath, Field
from transformers import AutoModelForImageTextToText, AutoProcessor

from pipeline.domain.batches import BatchBound
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.recognition import EngineIdentity, Flag, Line
from pipeline.engines.failures import failure_of
from pipeline.engines.noise import believed
from pipeline.engines.ppocr.asking import answer
from pipeline.engines.ppocr.detector import detect
from pipeline.engines.ppocr.reader import cut
from pipeline.engines.ppocr.runtime import FloatArray, Nets
from pipeline.engines.ppocr.weights import installed_folder, verified_weights
from pipeline.ports.documents import PageImage, Pixels
from pipeline.ports.engines import MemoryGauge, ReadPage, Reads
from workers.engines.device import NAMES, gauge_of, precision_of, read_together, this_device
from workers.engines.model_folder import digest_of
from workers.engines.ppocr_batches import MOST_PIXELS
from workers.engines.ppocr_torch import loaded_nets
from workers.engines.sureness import Sureness

NAME = "transformers"


class LineGeneratorOptions(BaseModel):
    """What the settings may say of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: DirectoryPath
    """As `save_pretrained` writes it, with its processor."""
    window: bool = False
    """Show it a window of its own size around a line's beginning, for models that know one size of print; else the line
    stretched to that size."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """For a line; default: what the model's own configuration says."""
    lines_at_once: int = Field(default=32, ge=1)
    batch_pages: int = Field(default=4, ge=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What the model made of a line."""

    text: str
    confidence: float
    """Mean probability of its tokens."""
    is_whole: bool
    """It ended by itself, and not because its tokens ran out."""


class LineGeneratorEngine:
    """Reads what its model was trained on. One per process; not safe between threads."""

    def __init__(self, options: LineGeneratorOptions) -> None:
        self._options = options
        self._device = this_device()
        self._loaded: _Loaded | None = None

    @property
    def reads(self) -> Reads:
        """Return that it takes several pages at once."""
        return Reads.BATCH

    @property
    def batch(self) -> BatchBound:
        """Return what it was told."""
        return BatchBound(pages=self._options.batch_pages, pixels=128_000_000)

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is, with the hash of its weights. Raises: Transient (`engine_unavailable`)."""
        return self._load().identity

    @property
    def gauge(self) -> MemoryGauge | None:
        """Return what measures its accelerator."""
        return gauge_of(self._device)

    def warm_up(self) -> None:
        """Load the model and read an empty line; calling twice is safe. Raises: Transient (`engine_unavailable`)."""
        self._load()

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield the lines of pages that are read together; after one that failed, the iterator goes on with the next.

        Raises: RecognitionFailed (`engine_failed`, `out_of_memory`), which holds on to no pixels and no tensors;
            Transient (`device_broken`).
        """
        return read_together(pages, self._found, self._device)

    def _found(self, pages: Sequence[PageImage]) -> Sequence[ReadPage | RecognitionFailed]:
        try:
            return self._load().read(pages)
        except Exception as error:
            failure = failure_of(error)
        return [failure] * len(pages)

    def _load(self) -> "_Loaded":
        if self._loaded is None:
            cv2.setNumThreads(1)
            try:
                self._loaded = _Loaded(self._options, self._device)
                self._loaded.generate([np.full((32, 320, 3), 255, np.uint8)])
            except (OSError, ValueError) as error:
                raise Transient(ErrorCode.ENGINE_UNAVAILABLE, f"{self._options.model}: {error}") from error
        return self._loaded


class _Loaded:
    def __init__(self, options: LineGeneratorOptions, device: torch.device) -> None:
        self._options, self._device = options, device
        self._precision = precision_of(device)
        self._nets: Nets = loaded_nets(verified_weights(installed_folder()), device, self._precision)
        self._processor = AutoProcessor.from_pretrained(options.model, local_files_only=True)
        model = AutoModelForImageTextToText.from_pretrained(options.model, local_files_only=True)
        self._model = model.eval().to(device, self._precision)
        runtime = f"torch-{version('torch')}-{device.type}-{NAMES[self._precision]}"
        self.identity = EngineIdentity(
            name=NAME,
            revision=f"{options.model.name}.{digest_of(options.model)[:12]}-{runtime}",
            settings_digest=hashlib.sha256(options.model_dump_json(exclude={"model"}).encode()).hexdigest()[:16],
        )

    def read(self, pages: Sequence[PageImage]) -> list[ReadPage | RecognitionFailed]:
        """Return what stands on each page. Raises: whatever the model raises."""
        found = answer([detect(page.pixels) for page in pages], self._nets, most_pixels=MOST_PIXELS)
        quads = [[] if isinstance(own, RecognitionFailed) else own for own in found]
        crops = [self._picture(page.pixels, quad) for page, own in zip(pages, quads, strict=True) for quad in own]
        texts = iter(self.generate(crops))
        return [
            one if isinstance(one, RecognitionFailed) else _page(page.number, own, [next(texts) for _ in own])
            for page, one, own in zip(pages, found, quads, strict=True)
        ]

    @torch.inference_mode()
    def generate(self, crops: Sequence[Pixels]) -> list[Generated]:
        """Return the text of each line, alike long ones together, so that few wait for a long one."""
        order = sorted(range(len(crops)), key=lambda index: crops[index].shape[1] / crops[index].shape[0])
        made: dict[int, Generated] = {}
        for start in range(0, len(order), self._options.lines_at_once):
            together = order[start : start + self._options.lines_at_once]
            made.update(zip(together, self._generate([crops[index] for index in together]), strict=True))
        return [made[index] for index in range(len(crops))]

    def _generate(self, crops: Sequence[Pixels]) -> list[Generated]:
        pictures = self._processor(images=list(crops), return_tensors="pt").pixel_values
        pictures = pictures.to(self._device, self._precision)
        sure = Sureness()
        limit = {} if self._options.max_new_tokens is None else {"max_new_tokens": self._options.max_new_tokens}
        tokens = self._model.generate(pixel_values=pictures, do_sample=False, logits_processor=[sure], **limit)
        new = tokens[:, -len(sure.steps) :]
        texts = self._processor.batch_decode(new, skip_special_tokens=True)
        is_end = torch.isin(new, torch.as_tensor(self._model.generation_config.eos_token_id, device=new.device))
        ends = is_end.cumsum(dim=1)
        counted = (ends - is_end.long()) == 0  # up to the first end, itself included
        confidence = (torch.stack(sure.steps, dim=1) * counted).sum(dim=1) / counted.sum(dim=1)
        return [
            Generated(text=text.strip(), confidence=float(share), is_whole=bool(end))
            for text, share, end in zip(texts, confidence, ends[:, -1] > 0, strict=True)
        ]

    def _picture(self, pixels: Pixels, quad: FloatArray) -> Pixels:
        if not self._options.window:
            return cut(pixels, quad)
        size = self._processor.image_processor.size
        height, width = size["height"], size["width"]
        seen = cut(pixels, _as_high_as(quad, height, pixels))
        line = cv2.resize(seen, (min(seen.shape[1], width), height), interpolation=cv2.INTER_AREA)
        paper = np.median(line.reshape(-1, 3), axis=0)
        window: Pixels = np.full((height, width, 3), paper, np.uint8)
        window[:, : line.shape[1]] = line
        return window


def _as_high_as(quad: FloatArray, height: int, pixels: Pixels) -> FloatArray:
    """Return a quad around the same middle line, of that height as far as the page reaches."""
    down = quad[[3, 2]] - quad[[0, 1]]
    middle = (quad[[3, 2]] + quad[[0, 1]]) / 2
    half = down / np.linalg.norm(down, axis=1, keepdims=True) * height / 2
    edge = np.array([pixels.shape[1] - 1, pixels.shape[0] - 1], np.float32)
    return np.asarray(np.clip([*(middle - half), *(middle + half)[::-1]], 0, edge), np.float32)


def _page(number: int, quads: Sequence[FloatArray], texts: Sequence[Generated]) -> ReadPage:
    lines = [
        Line(
            text=made.text,
            polygon=tuple((float(x), float(y)) for x, y in quad),
            confidence=min(1.0, max(0.0, made.confidence)),
        )
        for quad, made in zip(quads, texts, strict=True)
        if made.text
    ]
    kept, flags = believed(sorted(lines, key=lambda line: line.polygon[0][::-1]))
    if cut_off := sum(not made.is_whole for made in texts):
        flags = (*flags, Flag(name="truncated", score=cut_off / len(texts)))
    return ReadPage(number=number, lines=kept, flags=flags)
