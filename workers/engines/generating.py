"""Generates the text of several sequences: until they end, their tokens run out, or they go round in circles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from transformers import GenerationConfig, StoppingCriteria
from transformers.models.unlimited_ocr.generation_unlimited_ocr import (
    UnlimitedOcrSlidingWindowNoRepeatNgramLogitsProcessor as SlidingWindowNoRepeatNgram,
)

from pipeline.domain.loops import loop_at_end
from pipeline.engines.generated.said import Said
from workers.engines.page_models import PageModel, Prompt
from workers.engines.sureness import Sureness

_LOOKED_EVERY = 64
"""Tokens, between two looks at what has been said so far."""
_TAIL_TOKENS = 3000
"""What is looked at for loops: enough for the longest turns of `domain/loops.py` at one character a token."""
_BROKEN = "\ufffd"
"""What a part of a character decodes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How a generation may go on."""

    max_new_tokens: int
    no_repeat_ngram: int
    no_repeat_window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What a model has said in one sequence."""

    said: Said
    tokens: int
    is_whole: bool
    """It ended by itself."""


@torch.inference_mode()
def generate(
    model: PageModel, prompts: Sequence[Prompt], bounds: Bounds, progressed: Callable[[int], None]
) -> list[Generated]:
    """Return what a model says to each prompt.

    Pages are encoded one by one, since the vision encoders take by far the most memory, and their pixels are let go of
    before the first token. Args: progressed hears now and then how many tokens each sequence has.
    """
    embedded = [_embedded(model, prompt) for prompt in prompts]
    longest = max(len(one) for one in embedded)
    inputs = embedded[0].new_zeros(len(embedded), longest, embedded[0].shape[1])
    mask = torch.zeros(len(embedded), longest, dtype=torch.long, device=inputs.device)
    for row, one in enumerate(embedded):
        inputs[row, longest - len(one) :] = one
        mask[row, longest - len(one) :] = 1
    del embedded
    ends = _ends(model)
    watch, sure = _Watch(model, ends, progressed), Sureness()
    # With embeddings alone for its input, what is returned is what was generated.
    tokens = model.model.generate(
        inputs_embeds=inputs,
        attention_mask=mask,
        generation_config=_configuration(model, bounds, ends, context=_context(model) - longest),
        logits_processor=[*_unrepeated(bounds), sure],
        stopping_criteria=[watch],
    )
    rows, chances = tokens.tolist(), torch.stack(sure.steps, dim=1).tolist()
    return [_generated(model, row[: watch.stopped.get(index)], chances[index], ends) for index, row in enumerate(rows)]


@dataclass(slots=True)
class _Watch(StoppingCriteria):  # type: ignore[misc] # transformers' types are not followed
    """Stops each sequence that goes round in circles."""

    model: PageModel
    ends: frozenset[int]
    progressed: Callable[[int], None]
    stopped: dict[int, int] = field(default_factory=dict)
    """By sequence, how many tokens it had then."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor | None, **_more: object) -> torch.Tensor:  # noqa: ARG002 - theirs
        count = input_ids.shape[1]
        done = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
        if count % _LOOKED_EVERY:
            return done
        self.progressed(count)
        for row, ids in enumerate(input_ids[:, -_TAIL_TOKENS:].tolist()):
            if row in self.stopped or not self.ends.isdisjoint(ids):
                continue
            if loop_at_end(_text(self.model, ids)):
                self.stopped[row] = count
                done[row] = True
        return done


def _embedded(model: PageModel, prompt: Prompt) -> torch.Tensor:
    """Return the embeddings of a prompt, `(tokens, hidden)`, with those of its images in their places."""
    device, precision = model.model.device, model.model.dtype
    ids = prompt.ids.to(device)
    embeddings = model.model.get_input_embeddings()(ids)
    seen: list[torch.Tensor] = []
    for image in prompt.images:
        given = {name: _moved(value, device, precision) for name, value in image.items()}
        features = model.model.get_image_features(**given, return_dict=True).pooler_output
        seen += [one.reshape(-1, embeddings.shape[1]) for one in features]
    places = (ids == model.model.config.image_token_id).unsqueeze(-1)
    together = torch.cat(seen).to(embeddings.dtype)
    if int(places.sum()) != len(together):
        raise ValueError(f"the prompt has room for {int(places.sum())} tokens of images, and they have {len(together)}")
    return embeddings.masked_scatter(places, together)


def _moved(value: object, device: torch.device, precision: torch.dtype) -> object:
    return value.to(device, precision) if isinstance(value, torch.Tensor) else value


def _configuration(model: PageModel, bounds: Bounds, ends: frozenset[int], *, context: int) -> GenerationConfig:
    if context < 1:
        raise ValueError("the pages alone are longer than the model's context")
    return GenerationConfig(
        do_sample=False,
        max_new_tokens=min(bounds.max_new_tokens, context),
        eos_token_id=sorted(ends),
        pad_token_id=_padding(model, ends),
    )


def _unrepeated(bounds: Bounds) -> list[SlidingWindowNoRepeatNgram]:
    """Return what keeps tokens from being said again; Unlimited-OCR's, which does for the others as well."""
    if not bounds.no_repeat_ngram:
        return []
    return [SlidingWindowNoRepeatNgram(ngram_size=bounds.no_repeat_ngram, window_size=bounds.no_repeat_window)]


def _ends(model: PageModel) -> frozenset[int]:
    told = model.model.generation_config.eos_token_id
    ids = told if isinstance(told, list) else [told]
    return frozenset(one for one in (*ids, model.tokenizer.eos_token_id) if one is not None)


def _padding(model: PageModel, ends: frozenset[int]) -> int:
    known = (model.model.generation_config.pad_token_id, model.tokenizer.pad_token_id, *sorted(ends), 0)
    return next(int(one) for one in known if one is not None)


def _context(model: PageModel) -> int:
    return int(model.model.config.get_text_config().max_position_embeddings)


def _generated(model: PageModel, ids: list[int], chances: Sequence[float], ends: frozenset[int]) -> Generated:
    end = next((index for index, one in enumerate(ids) if one in ends), None)
    own = ids[:end]
    pieces = _pieces(model, own)
    text = _text(model, own)
    if "".join(piece for piece, _ in pieces) != text:
        pieces = [(text, len(own))]
    probabilities: list[float] = []
    at = 0
    for _, count in pieces:
        probabilities.append(sum(chances[at : at + count]) / max(1, count))
        at += count
    said = Said(text=text, tokens=[piece for piece, _ in pieces], probabilities=probabilities)
    return Generated(said=said, tokens=len(own), is_whole=end is not None)


def _pieces(model: PageModel, ids: Sequence[int]) -> list[tuple[str, int]]:
    """Return the text in pieces of whole characters, each with how many tokens it is made of."""
    pieces: list[tuple[str, int]] = []
    first = 0
    for index in range(1, len(ids) + 1):
        piece = _text(model, ids[first:index])
        if not piece.endswith(_BROKEN) or index - first >= _LONGEST_CHARACTER:
            pieces.append((piece, index - first))
            first = index
    return [*pieces, (_text(model, ids[first:]), len(ids) - first)] if first < len(ids) else pieces


_LONGEST_CHARACTER = 8
"""Tokens, one a byte, of a character with what is joined to it."""


def _text(model: PageModel, ids: Sequence[int]) -> str:
    """Return what tokens spell, special ones included: the marks of pages and places are among those."""
    return str(model.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
