"""`ppocr-torch`: the networks of the CPU engine in torch, so that they run on accelerators, several pages at once.

All around the networks is shared with the CPU engine (`pipeline/engines/ppocr`), so both read alike.
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

import cv2
import torch
from torch import nn

from pipeline.domain.batches import BatchBound
from pipeline.domain.errors import RecognitionFailed
from pipeline.domain.recognition import EngineIdentity
from pipeline.engines.ppocr.pages import check, read_pages, settings_digest
from pipeline.engines.ppocr.runtime import Answer, Best, FloatArray, Net, Nets
from pipeline.engines.ppocr.weights import SMALL, Weights, installed_folder, verified_weights
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import MemoryGauge, ReadPage, Reads
from workers.engines.device import NAMES, gauge_of, precision_of, read_together, this_device
from workers.engines.ppocr_batches import MOST_PIXELS, ON_ACCELERATOR, ON_CPU
from workers.engines.ppocr_weights import detector, recogniser

NAME = "ppocr-torch"


class PpocrTorchEngine:
    """Reads Chinese, English and other Latin print. One per process; not safe between threads."""

    def __init__(
        self,
        *,
        device: torch.device | None = None,
        precision: torch.dtype | None = None,
        batch_pages: int | None = None,
        batch_pixels: int | None = None,
    ) -> None:
        """Args: device and precision are by default what this process was given and what is fast there."""
        self._device = device or this_device()
        usual = ON_CPU if self._device.type == "cpu" else ON_ACCELERATOR
        self._batch = BatchBound(pages=batch_pages or usual.pages, pixels=batch_pixels or usual.pixels)
        self._precision = precision or precision_of(self._device)
        self._nets: Nets | None = None

    @property
    def reads(self) -> Reads:
        """Return that it takes several pages at once."""
        return Reads.BATCH

    @property
    def batch(self) -> BatchBound:
        """Return what it was told, else what fits."""
        return self._batch

    @property
    def identity(self) -> EngineIdentity:
        """Return what it is, with what computes it."""
        runtime = f"torch-{version('torch')}-{self._device.type}-{NAMES[self._precision]}"
        return EngineIdentity(name=NAME, revision=f"{SMALL.revision}-{runtime}", settings_digest=settings_digest())

    @property
    def gauge(self) -> MemoryGauge | None:
        """Return what measures its accelerator."""
        return gauge_of(self._device)

    def warm_up(self) -> None:
        """Load the networks and read a page of the usual size; calling twice is safe.

        Raises: Transient (`engine_unavailable`).
        """
        self._load()

    def read(self, pages: Iterable[PageImage]) -> Iterator[ReadPage]:
        """Yield the lines of pages that are read together; after one that failed, the iterator goes on with the next.

        Raises: RecognitionFailed (`engine_failed`, `out_of_memory`), which holds on to no pixels and no tensors;
            Transient (`device_broken`).
        """
        return read_together(pages, self._read, self._device)

    def _read(self, pages: Sequence[PageImage]) -> Sequence[ReadPage | RecognitionFailed]:
        return read_pages(pages, self._load(), most_pixels=MOST_PIXELS)

    def _load(self) -> Nets:
        if self._nets is None:
            cv2.setNumThreads(1)
            weights = verified_weights(installed_folder())
            self._nets = loaded_nets(weights, self._device, self._precision)
            check(self._nets, most_pixels=MOST_PIXELS)
        return self._nets


def loaded_nets(weights: Weights, device: torch.device, precision: torch.dtype) -> Nets:
    """Load both networks onto a device."""
    reading, alphabet = recogniser(weights.recogniser)
    networks: dict[Net, nn.Module] = {Net.DETECTOR: detector(weights.detector), Net.RECOGNISER: reading}
    for network in networks.values():
        network.to(device, precision)

    @torch.inference_mode()
    def run(net: Net, batch: FloatArray) -> Sequence[Answer]:
        output = networks[net](torch.from_numpy(batch).to(device, precision)).last_hidden_state
        if net is Net.DETECTOR:
            return list(output[:, 0].float().cpu().numpy())
        # Chosen on the device: all probabilities of a line are 75 kB a step, of 18,710 characters.
        scores, labels = output.float().max(dim=2)
        return [
            Best(labels=own, scores=sure) for own, sure in zip(labels.cpu().numpy(), scores.cpu().numpy(), strict=True)
        ]

    return Nets(run=run, alphabets={Net.RECOGNISER: alphabet}, precision=NAMES[precision])
