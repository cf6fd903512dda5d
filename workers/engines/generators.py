"""The engines whose models write a whole page's text: what each may be told, and what it takes. Knows no torch.

Prompts and the sizes of images are those of the model cards and of the classes in transformers 5.24.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from pipeline.domain.errors import ErrorCode, Transient
from pipeline.domain.memory import DType, Workload
from pipeline.domain.model_shapes import UnknownArchitecture, shape_of
from pipeline.domain.sequence_memory import SequenceModel
from pipeline.ports.engines import EngineOptions, Reads
from workers.engines.model_folder import ModelSource, located

_PROMPT_TOKENS = 64
"""More than any of the prompts has."""
_USUAL_PAGE_TOKENS = 1024
"""Of a page of print; by this, not by the most that one may have, it is planned how many pages share a context."""
_WHOLE_TOKENS, _TILE_TOKENS = 256, 144
"""Of DeepSeek-OCR-2: for the whole page, and for each of its tiles."""


class GeneratorOptions(ModelSource):
    """What the settings may say of any of them."""

    prompt: str
    max_new_tokens: int = Field(default=4096, ge=1)
    """For a page. Where they run out, it is flagged `truncated`."""
    batch_pages: int = Field(default=4, ge=1)
    tiles: int = Field(default=6, ge=0)
    """Parts in which a page is looked at more closely, at most; no more than its pixels fill."""
    no_repeat_ngram: int = Field(default=0, ge=0)
    """Never say so many tokens again within `no_repeat_window`; 0 leaves repetition to be stopped when it is a loop."""
    no_repeat_window: int = Field(default=128, ge=1)


class DeepseekOcr2Options(GeneratorOptions):
    """DeepSeek-OCR-2, a page a sequence."""

    model: str = "deepseek-community/DeepSeek-OCR-2"
    prompt: str = "<|grounding|>Convert the document to markdown."
    visual_tokens: int = Field(default=_WHOLE_TOKENS + 6 * _TILE_TOKENS, ge=_WHOLE_TOKENS, le=1120)
    """Of a page: 256 for the whole of it, and 144 for each of two to six tiles. Jobs may ask for fewer."""


class QianfanOcrOptions(GeneratorOptions):
    """Qianfan-OCR, a page a sequence."""

    model: str = "baidu/Qianfan-OCR"
    prompt: str = "Parse this document to Markdown."
    tiles: int = Field(default=12, ge=0)


class UnlimitedOcrOptions(GeneratorOptions):
    """Unlimited-OCR, many pages a sequence."""

    model: str = "baidu/Unlimited-OCR"
    prompt: str = "document parsing."
    sequence_prompt: str = "Multi page parsing."
    """For more than one page."""
    batch_pages: int = Field(default=20, ge=1)
    """In one sequence."""
    no_repeat_ngram: int = Field(default=35, ge=0)
    sequence_window: int = Field(default=1024, ge=1)
    """The same as `no_repeat_window`, for more than one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One of these engines."""

    name: str
    model_type: str
    """As transformers calls it."""
    options: type[GeneratorOptions]
    reads: Reads
    together: Callable[[GeneratorOptions, int], Workload]
    """Gives the most that it reads at once, with so many tiles for a page that it reads alone."""

    def told(self, options: EngineOptions) -> GeneratorOptions:
        """Return what the settings say. Raises: ValueError."""
        try:
            return self.options.model_validate(options)
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise ValueError(f"its options are not its own: {'; '.join(problems)}") from error

    def problem(self, options: EngineOptions) -> str | None:
        """Say what keeps its model from being loaded on this host, if something does."""
        try:
            told = self.told(options)
            if not told.online:
                self.config(told)
        except Transient as error:
            return error.message
        except ValueError as error:
            return str(error)
        return None

    def config(self, options: GeneratorOptions) -> dict[str, Any]:
        """Return the configuration of the model, which is on this host.

        Raises: Transient (`engine_unavailable`), if it is not, or it is another kind of model.
        """
        folder = located(options)
        try:
            config: dict[str, Any] = json.loads((folder / "config.json").read_text())
            found = str(config.get("model_type"))
        except (OSError, ValueError, AttributeError) as error:
            raise Transient(ErrorCode.ENGINE_UNAVAILABLE, f"{folder}/config.json can't be read: {error}") from error
        if found.replace("-", "_") != self.model_type:
            raise Transient(
                ErrorCode.ENGINE_UNAVAILABLE, f"{folder} has a model of type {found}, and not {self.model_type}"
            )
        return config

    def memory(self, options: EngineOptions) -> SequenceModel | None:
        """Return what it takes of an accelerator; nothing if its model is not on this host to tell.

        Raises: ValueError, if options or configuration are not its own.
        """
        told = self.told(options)
        try:
            config = self.config(told)
            shape_of(config)
        except Transient:
            return None
        except UnknownArchitecture as error:
            raise ValueError(str(error)) from error
        tiles = most_tiles(told)
        alone = Workload(
            tiles=tiles,
            prompt_tokens=_PROMPT_TOKENS,
            output_tokens=told.max_new_tokens,
            images_at_once=max(1, tiles),
        )
        return SequenceModel(config=config, dtype=DType.BFLOAT16, together=self.together(told, tiles), alone=alone)


def most_tiles(options: GeneratorOptions, visual_tokens: int | None = None) -> int:
    """Return in how many tiles a page is seen at most.

    Args: visual_tokens is what a job asks for; only DeepSeek-OCR-2 has such a budget.
    """
    if not isinstance(options, DeepseekOcr2Options):
        return options.tiles
    tokens = min(options.visual_tokens, visual_tokens or options.visual_tokens)
    return min(options.tiles, max(0, tokens - _WHOLE_TOKENS) // _TILE_TOKENS)


def _batch(options: GeneratorOptions, tiles: int) -> Workload:
    return Workload(
        batch=options.batch_pages,
        tiles=tiles,
        prompt_tokens=_PROMPT_TOKENS,
        output_tokens=options.max_new_tokens,
        images_at_once=max(1, tiles),
    )


def _sequence(options: GeneratorOptions, _tiles: int) -> Workload:
    return Workload(
        pages=options.batch_pages,
        prompt_tokens=_PROMPT_TOKENS,
        output_tokens=min(options.max_new_tokens, _USUAL_PAGE_TOKENS),
        images_at_once=1,
    )


DEEPSEEK_OCR2 = Family(
    name="deepseek-ocr2",
    model_type="deepseek_ocr2",
    options=DeepseekOcr2Options,
    reads=Reads.BATCH,
    together=_batch,
)
QIANFAN_OCR = Family(
    name="qianfan-ocr", model_type="qianfan_ocr", options=QianfanOcrOptions, reads=Reads.BATCH, together=_batch
)
UNLIMITED_OCR = Family(
    name="unlimited-ocr",
    model_type="unlimited_ocr",
    options=UnlimitedOcrOptions,
    reads=Reads.SEQUENCE,
    together=_sequence,
)
