"""What a model's memory follows from, and the counts that several architectures share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]
"""What `config.json` holds."""


class UnknownArchitecture(Exception):
    """The memory of such a model can't be predicted; the message says what about it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageShape:
    """What one image costs that goes through the vision encoder."""

    tokens: int
    """Tokens that the decoder gets of it."""
    pixels: int
    """Elements of its input, which stays until the end of the generation."""
    activations: int
    """Elements alive at the peak of its encoding, its input not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A model as far as memory is concerned; all sizes are elements, not bytes."""

    parameters: int
    parameters_in_float32: int = 0
    """Those among them that stay in 32 bit whatever the model's type."""
    page: ImageShape
    """A whole page."""
    tile: ImageShape | None = None
    """A part of a page that is read beside the whole at a higher resolution; None for models without."""
    separator_tokens: int = 0
    """Tokens of a page that belong to none of its images."""
    layers: int
    """Of the decoder."""
    hidden: int
    """Elements of the decoder for a token between two layers."""
    cache_per_token: int
    """Keys and values of one token, over all layers."""
    cross_cache: int = 0
    """Keys and values of one page that an encoder-decoder keeps beside, over all layers."""
    window: int | None = None
    """Generated tokens that the cache keeps, beside everything that was there before; None keeps all."""
    activations_per_token: int
    """Elements alive at the peak of the prefill, for each of its tokens."""
    has_mask: bool = False
    """Whether the prefill's attention mask exists in memory: one byte for each pair of tokens."""
    vocabulary: int
    context_tokens: int
    """Most tokens of one sequence, prompt included."""


def text_of(config: Config, defaults: Config) -> dict[str, Any]:
    """Return the decoder's part, which the checkpoints that came before the classes call by another name."""
    older = {key: config[key] for key in ("sliding_window",) if key in config}
    return part({**defaults, **older}, config.get("text_config") or config.get("language_config"))


def part(defaults: Config, given: Config | None) -> dict[str, Any]:
    """Return one part of a configuration, completed."""
    return {**defaults, **(given or {})}


def is_tied(config: Config, text: Config) -> bool:
    """Whether the decoder's head and embedding are one."""
    return bool(config.get("tie_word_embeddings", text["tie_word_embeddings"]))


def depth(part: Config) -> int:
    """Return the number of layers."""
    return int(part["num_hidden_layers"])


def linear(inputs: int, outputs: int) -> int:
    """Return the parameters of a linear layer with a bias."""
    return inputs * outputs + outputs


def both(size: int | list[int] | tuple[int, int]) -> tuple[int, int]:
    """Return a size as height and width."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def channels(vision: Config, pixels: int) -> int:
    """Return the elements of an image of so many pixels."""
    return int(vision["num_channels"]) * pixels


def pixels_of(vision: Config) -> int:
    """Return the pixels of an image that an encoder takes."""
    height, width = both(vision["image_size"])
    return height * width


def patches(vision: Config) -> int:
    """Return into how many patches an encoder divides its image."""
    (height, width), (down, right) = both(vision["image_size"]), both(vision["patch_size"])
    return (height // down) * (width // right)


def patch_embedding(vision: Config) -> int:
    """Return the parameters of the layer that makes a token of each patch."""
    down, right = both(vision["patch_size"])
    return int(vision["num_channels"]) * int(vision["hidden_size"]) * down * right + int(vision["hidden_size"])


def vit_activations(vision: Config) -> int:
    """Return the peak of a plain image transformer: attention or its wide layer, and what stays beside."""
    hidden, inner = vision["hidden_size"], vision["intermediate_size"]
    return int((patches(vision) + 1) * max(6 * hidden, 2 * hidden + 2 * inner))
