"""How each of the models that write a whole page is loaded and shown pages, in transformers' own classes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoProcessor,
    AutoTokenizer,
    DeepseekOcr2ForConditionalGeneration,
    DeepseekOcr2Processor,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    QianfanOCRForConditionalGeneration,
    UnlimitedOcrForConditionalGeneration,
    UnlimitedOcrProcessor,
)
from transformers.models.deepseek_ocr2.image_processing_pil_deepseek_ocr2 import DeepseekOcr2ImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

from pipeline.ports.documents import Pixels
from workers.engines.generators import GeneratorOptions, UnlimitedOcrOptions
from workers.engines.unlimited_images import UnlimitedOcrImageProcessorPil

_NO_TILES = 10**6
"""The side of a tile into which no page is cut, for processors that cut whatever is larger than one."""
_FEWEST_TILES = 2
"""One would show the whole page once more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompt:
    """What a model is asked, for one sequence."""

    ids: torch.Tensor
    """`(tokens,)`; those of images stand where the images do."""
    images: Sequence[Mapping[str, Any]]
    """Page by page, what the model's `get_image_features` takes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageModel:
    """A model on its device, and how it is asked for pages."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    asked: Callable[[Sequence[Pixels], int], Prompt]
    """Makes of the pages of one sequence, seen in so many tiles each at most, what the model is asked."""


def load(name: str, folder: Path, options: GeneratorOptions, device: torch.device, precision: torch.dtype) -> PageModel:
    """Load one of the models onto a device.

    Raises: OSError, ValueError, if the files are not those of such a model, or incomplete.
    """
    model_class, tokenizer, asked = _LOADERS[name](folder, options)
    model, told = model_class.from_pretrained(
        folder, dtype=precision, local_files_only=True, use_safetensors=True, output_loading_info=True
    )
    if missing := sorted(told["missing_keys"]):
        raise ValueError(f"the weights lack {len(missing)} of the model's, {missing[0]} among them")
    return PageModel(model=model.eval().to(device), tokenizer=tokenizer, asked=asked)


_Loaded = tuple[type[PreTrainedModel], PreTrainedTokenizerBase, Callable[[Sequence[Pixels], int], Prompt]]


def _deepseek_ocr2(folder: Path, options: GeneratorOptions) -> _Loaded:
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    processor = DeepseekOcr2Processor(image_processor=DeepseekOcr2ImageProcessorPil(), tokenizer=tokenizer)

    def asked(pages: Sequence[Pixels], tiles: int) -> Prompt:
        text = f"{processor.image_token}\n{options.prompt}"
        given = processor(images=list(pages), text=[text], return_tensors="pt", **_cut(tiles))
        return Prompt(ids=given["input_ids"][0], images=[_image(given, "pixel_values_local", "num_local_patches")])

    return DeepseekOcr2ForConditionalGeneration, tokenizer, asked


def _qianfan_ocr(folder: Path, options: GeneratorOptions) -> _Loaded:
    processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
    # The same with and without torchvision.
    processor.image_processor = GotOcr2ImageProcessorPil.from_pretrained(folder, local_files_only=True)
    content = [{"type": "image"}, {"type": "text", "text": options.prompt}]

    def asked(pages: Sequence[Pixels], tiles: int) -> Prompt:
        text = processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        given = processor(images=list(pages), text=[text], return_tensors="pt", max_patches=max(1, tiles))
        return Prompt(ids=given["input_ids"][0], images=[_image(given)])

    return QianfanOCRForConditionalGeneration, processor.tokenizer, asked


def _unlimited_ocr(folder: Path, options: GeneratorOptions) -> _Loaded:
    assert isinstance(options, UnlimitedOcrOptions)  # noqa: S101 - its family's
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    processor = UnlimitedOcrProcessor(image_processor=UnlimitedOcrImageProcessorPil(), tokenizer=tokenizer)

    def asked(pages: Sequence[Pixels], tiles: int) -> Prompt:
        is_alone = len(pages) == 1
        text = processor.image_token * len(pages) + (options.prompt if is_alone else options.sequence_prompt)
        given = processor(images=list(pages), text=[text], return_tensors="pt", **_cut(tiles if is_alone else 0))
        if is_alone:
            return Prompt(
                ids=given["input_ids"][0],
                images=[_image(given, "pixel_values_local", "num_local_patches", "patches_grid")],
            )
        pixels = given["pixel_values"]
        return Prompt(
            ids=given["input_ids"][0],
            images=[{"pixel_values": pixels[index : index + 1]} for index in range(len(pages))],
        )

    return UnlimitedOcrForConditionalGeneration, tokenizer, asked


def _cut(tiles: int) -> dict[str, int]:
    return {"max_patches": tiles} if tiles >= _FEWEST_TILES else {"tile_size": _NO_TILES}


def _image(given: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """Return what a processor has made of a single page."""
    names = ("pixel_values", *more) if "pixel_values_local" in given else ("pixel_values",)
    # Counts come as tensors or lists, and are taken as lists.
    return {
        name: given[name].tolist() if name in _COUNTS and isinstance(given[name], torch.Tensor) else given[name]
        for name in names
    }


_COUNTS = ("num_local_patches", "patches_grid")
_LOADERS: Mapping[str, Callable[[Path, GeneratorOptions], _Loaded]] = {
    "deepseek-ocr2": _deepseek_ocr2,
    "qianfan-ocr": _qianfan_ocr,
    "unlimited-ocr": _unlimited_ocr,
}
