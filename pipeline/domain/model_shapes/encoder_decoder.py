"""An image encoder and a text decoder that looks at it by cross-attention: ViT and TrOCR."""

from pipeline.domain.model_shapes.counting import (
    Config,
    ImageShape,
    ModelShape,
    UnknownArchitecture,
    channels,
    depth,
    linear,
    part,
    patch_embedding,
    patches,
    pixels_of,
    vit_activations,
)

_VIT: Config = {
    "hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072, "image_size": 224, "patch_size": 16,
    "num_channels": 3, "qkv_bias": True, "pooler_output_size": None,
}  # fmt: skip
_TROCR: Config = {
    "vocab_size": 50265, "d_model": 1024, "decoder_layers": 12, "decoder_ffn_dim": 4096, "max_position_embeddings": 512,
    "use_learned_position_embeddings": True, "layernorm_embedding": True, "cross_attention_hidden_size": None,
    "tie_word_embeddings": True,
}  # fmt: skip
_POSITION_OFFSET = 2
"""Rows of TrOCR's learned positions before the first."""


def encoder_decoder(config: Config) -> ModelShape:
    """Return the shape of a ViT and TrOCR pair."""
    given_encoder, given_decoder = config.get("encoder") or {}, config.get("decoder") or {}
    kinds = given_encoder.get("model_type"), given_decoder.get("model_type")
    if kinds != ("vit", "trocr"):
        raise UnknownArchitecture(f"no memory plan for an encoder and decoder of types {kinds}")
    encoder, decoder = part(_VIT, given_encoder), part(_TROCR, given_decoder)
    hidden, width, inner = encoder["hidden_size"], decoder["d_model"], decoder["decoder_ffn_dim"]
    tokens = patches(encoder) + 1
    seen = decoder["cross_attention_hidden_size"] or width
    bridge = linear(hidden, width) if hidden != width and decoder["cross_attention_hidden_size"] is None else 0
    layer = (
        6 * linear(width, width) + 2 * linear(seen, width) + linear(width, inner) + linear(inner, width) + 3 * 2 * width
    )
    positions = decoder["max_position_embeddings"] + _POSITION_OFFSET
    embeddings = (
        decoder["vocab_size"] * width * (1 if decoder["tie_word_embeddings"] else 2)
        + positions * width * int(decoder["use_learned_position_embeddings"])
        + 2 * width * int(decoder["layernorm_embedding"])
    )
    layers = decoder["decoder_layers"]
    return ModelShape(
        parameters=_encoder_parameters(encoder, tokens) + bridge + layers * layer + embeddings,
        # Its page is the one image that it reads at a time, often a line; the decoder sees none of its tokens.
        page=ImageShape(tokens=0, pixels=channels(encoder, pixels_of(encoder)), activations=vit_activations(encoder)),
        layers=layers,
        hidden=width,
        cache_per_token=2 * layers * width,
        cross_cache=2 * layers * width * tokens,
        activations_per_token=6 * width + 2 * inner,
        vocabulary=decoder["vocab_size"],
        context_tokens=decoder["max_position_embeddings"],
    )


def _encoder_parameters(vision: Config, tokens: int) -> int:
    hidden, inner = vision["hidden_size"], vision["intermediate_size"]
    layer = (
        3 * (hidden * hidden + int(vision["qkv_bias"]) * hidden)
        + linear(hidden, hidden)
        + linear(hidden, inner)
        + linear(inner, hidden)
        + 4 * hidden
    )
    # Nothing reads the pooler's output; the class makes it all the same.
    pooler = linear(hidden, vision["pooler_output_size"] or hidden)
    return int(patch_embedding(vision) + (1 + tokens) * hidden + depth(vision) * layer + 2 * hidden + pooler)
