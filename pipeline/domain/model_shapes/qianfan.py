"""Qianfan-OCR: InternViT over tiles, then Qwen3 with grouped queries."""

from pipeline.domain.model_shapes.counting import (
    Config,
    ImageShape,
    ModelShape,
    UnknownArchitecture,
    channels,
    depth,
    is_tied,
    linear,
    part,
    patch_embedding,
    patches,
    pixels_of,
    text_of,
    vit_activations,
)

_INTERN_VIT: Config = {
    "hidden_size": 1024, "num_hidden_layers": 24, "attention_bias": True, "use_qk_norm": False,
    "intermediate_size": 4096, "norm_type": "layer_norm", "image_size": 448, "patch_size": 14, "num_channels": 3,
    "use_mask_token": False, "use_absolute_position_embeddings": True, "use_mean_pooling": True,
}  # fmt: skip
_QWEN3: Config = {
    "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
    "attention_bias": False, "tie_word_embeddings": False, "use_sliding_window": False,
}  # fmt: skip


def qianfan_ocr(config: Config) -> ModelShape:
    """Return the shape of a Qianfan-OCR: a page and each of its tiles go through the same encoder at the same size."""
    vision = part(_INTERN_VIT, config.get("vision_config"))
    text = text_of(config, _QWEN3)
    if text["use_sliding_window"] or (config.get("text_config") or {}).get("model_type", "qwen3") != "qwen3":
        raise UnknownArchitecture("a Qianfan-OCR model whose decoder is not Qwen3 with full attention")
    hidden, inner, factor = text["hidden_size"], text["intermediate_size"], int(1 / config.get("downsample_ratio", 0.5))
    queries = text["num_attention_heads"] * text["head_dim"]
    keys = (text["num_key_value_heads"] or text["num_attention_heads"]) * text["head_dim"]
    bias = int(text["attention_bias"]) * (queries + 2 * keys + hidden)
    layer = 2 * hidden * queries + 2 * hidden * keys + bias + 2 * text["head_dim"] + 3 * hidden * inner + 2 * hidden
    embedding = text["vocab_size"] * hidden * (1 if is_tied(config, text) else 2)
    joined = vision["hidden_size"] * factor**2
    projector = 2 * joined + linear(joined, hidden) + linear(hidden, hidden)
    image = ImageShape(
        tokens=config.get("image_seq_length", 256),
        pixels=channels(vision, pixels_of(vision)),
        activations=vit_activations(vision),
    )
    return ModelShape(
        parameters=_vision_parameters(vision) + projector + depth(text) * layer + hidden + embedding,
        page=image,
        tile=image,
        layers=depth(text),
        hidden=hidden,
        cache_per_token=2 * depth(text) * keys,
        activations_per_token=max(3 * hidden + 2 * queries + 4 * keys, 3 * hidden + 3 * inner),
        vocabulary=text["vocab_size"],
        context_tokens=text["max_position_embeddings"],
    )


def _vision_parameters(vision: Config) -> int:
    hidden, inner = vision["hidden_size"], vision["intermediate_size"]
    norm = hidden if vision["norm_type"] == "rms_norm" else 2 * hidden
    layer = (
        3 * (hidden * hidden + int(vision["attention_bias"]) * hidden)
        + linear(hidden, hidden)
        + 2 * hidden * int(vision["use_qk_norm"])
        + linear(hidden, inner)
        + linear(inner, hidden)
        + 2 * norm
        + 2 * hidden
    )
    positions = (patches(vision) + 1) * hidden * int(vision["use_absolute_position_embeddings"])
    tokens = hidden * (1 + int(vision["use_mask_token"]))
    last = 0 if vision["use_mean_pooling"] else 2 * hidden
    return int(patch_embedding(vision) + tokens + positions + depth(vision) * layer + last)
