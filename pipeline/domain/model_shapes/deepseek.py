"""DeepSeek-OCR-2 and Unlimited-OCR: SAM and a second encoder over whole pages and tiles, then a mixture of experts."""

import math

from pipeline.domain.model_shapes.counting import (
    Config,
    ImageShape,
    ModelShape,
    UnknownArchitecture,
    channels,
    depth,
    linear,
    part,
    text_of,
)

SAM: Config = {
    "hidden_size": 768, "output_channels": 256, "num_hidden_layers": 12, "num_attention_heads": 12, "num_channels": 3,
    "image_size": 1024, "patch_size": 16, "window_size": 14, "global_attn_indexes": (2, 5, 8, 11), "mlp_ratio": 4.0,
    "mlp_dim": None, "downsample_channels": None, "qkv_bias": True, "use_abs_pos": True, "use_rel_pos": True,
}  # fmt: skip
DEEPSEEK_TEXT: Config = {
    "vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": None, "max_position_embeddings": 2048, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": None, "moe_intermediate_size": 1407, "mlp_layer_types": None,
    "first_k_dense_replace": 0, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
}  # fmt: skip
_QWEN2_ENCODER: Config = {
    "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32,
}  # fmt: skip
_QUERIES = {1024: 256, 768: 144}
"""Learned queries by the side of the image in pixels; fixed in the class."""


def deepseek_ocr2(config: Config) -> ModelShape:
    """Return the shape of a DeepSeek-OCR-2: after SAM a Qwen2 with learned queries."""
    vision, text = config.get("vision_config") or {}, text_of(config, DEEPSEEK_TEXT)
    sam = part({**SAM, "downsample_channels": [512, 896]}, vision.get("sam_config"))
    encoder = part(_QWEN2_ENCODER, vision.get("encoder_config"))
    hidden = encoder["hidden_size"]
    keys = hidden // encoder["num_attention_heads"] * encoder["num_key_value_heads"]
    layer = (
        linear(hidden, hidden)
        + 2 * linear(hidden, keys)
        + hidden * hidden
        + 3 * hidden * encoder["intermediate_size"]
        + 2 * hidden
    )
    projector = linear(hidden, text["hidden_size"]) + text["hidden_size"]
    queries = sum(_QUERIES.values()) * hidden
    decoder = _DeepseekDecoder(text)

    def image(side: int) -> ImageShape:
        tokens = _QUERIES[side]
        encoding = 2 * tokens * (5 * hidden + 3 * encoder["intermediate_size"]) + (2 * tokens) ** 2
        return ImageShape(
            tokens=tokens, pixels=channels(sam, side**2), activations=max(_sam_activations(sam, side), encoding)
        )

    return decoder.below(
        parameters=_sam_parameters(sam) + depth(encoder) * layer + hidden + queries + projector,
        page=image(1024),
        tile=image(768),
    )


_CLIP: Config = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "image_size": 224, "patch_size": 14,
}  # fmt: skip
_UNLIMITED_TEXT: Config = {
    **DEEPSEEK_TEXT,
    "vocab_size": 129280, "hidden_size": 1280, "intermediate_size": 6848, "num_hidden_layers": 12,
    "num_attention_heads": 10, "num_key_value_heads": 10, "max_position_embeddings": 32768, "num_experts_per_tok": 6,
    "moe_intermediate_size": 896, "first_k_dense_replace": 1, "sliding_window": 128,
}  # fmt: skip
_REDUCTION = 64
"""Pixels along the side of an image for each token of it: patches of 16, reduced four times."""


def unlimited_ocr(config: Config) -> ModelShape:
    """Return the shape of an Unlimited-OCR: after SAM a CLIP, a reference sliding window in its decoder."""
    vision, text = config.get("vision_config") or {}, text_of(config, _UNLIMITED_TEXT)
    sam = part({**SAM, "downsample_channels": [512, 1024], "mlp_dim": 3072}, vision.get("sam_config"))
    clip = part(_CLIP, vision.get("encoder_config"))
    hidden, inner = clip["hidden_size"], clip["intermediate_size"]
    positions = (clip["image_size"] // clip["patch_size"]) ** 2 + 1
    layer = 4 * linear(hidden, hidden) + linear(hidden, inner) + linear(inner, hidden) + 4 * hidden
    encoder_parameters = hidden + positions * hidden + 2 * hidden + clip["num_hidden_layers"] * layer
    joined = sam["downsample_channels"][-1] + hidden
    projector = linear(joined, text["hidden_size"]) + 2 * text["hidden_size"]
    decoder = _DeepseekDecoder(text)

    def image(side: int) -> ImageShape:
        across = side // _REDUCTION
        encoding = (across**2 + 1) * (5 * hidden + 2 * inner)
        # Each row of tokens ends with a line break. Tiles share theirs with their neighbours, so this is the most.
        return ImageShape(
            tokens=across * (across + 1),
            pixels=channels(sam, side**2),
            activations=max(_sam_activations(sam, side), encoding),
        )

    return decoder.below(
        parameters=_sam_parameters(sam) + encoder_parameters + projector,
        page=image(1024),
        tile=image(640),
        window=text["sliding_window"],
    )


def _sam_parameters(sam: Config) -> int:
    hidden, patch, grid = sam["hidden_size"], sam["patch_size"], sam["image_size"] // sam["patch_size"]
    out, (first, second) = sam["output_channels"], sam["downsample_channels"]
    inner = _sam_inner(sam)
    layer = (
        (3 * hidden * hidden + 3 * hidden * sam["qkv_bias"])
        + linear(hidden, hidden)
        + linear(hidden, inner)
        + linear(inner, hidden)
        + 4 * hidden
    )
    spans = [grid if index in sam["global_attn_indexes"] else sam["window_size"] for index in range(depth(sam))]
    head = hidden // sam["num_attention_heads"]
    relative = sum(2 * (2 * span - 1) * head for span in spans) * sam["use_rel_pos"]
    patches = sam["num_channels"] * hidden * patch**2 + hidden + grid**2 * hidden * sam["use_abs_pos"]
    neck = hidden * out + 9 * out * out + 4 * out + 9 * out * first + 9 * first * second
    return int(patches + depth(sam) * layer + relative + neck)


def _sam_activations(sam: Config, side: int) -> int:
    """Return the peak for one image: relative positions, for each head and pair of patches and twice, are most of it.

    The class adds them up in an order of axes that the attention can't take, so that they are copied once.
    """
    hidden, heads, window = sam["hidden_size"], sam["num_attention_heads"], sam["window_size"]
    grid = side // sam["patch_size"]
    is_global = any(index in sam["global_attn_indexes"] for index in range(depth(sam)))
    windows = 1 if is_global else math.ceil(grid / window) ** 2
    span = grid if is_global else window
    attention = windows * (2 * heads * span**4 + 5 * span**2 * hidden) + grid**2 * 2 * hidden
    mlp = grid**2 * (2 * hidden + 2 * _sam_inner(sam))
    return int(max(attention, mlp))


def _sam_inner(sam: Config) -> int:
    return int(sam["mlp_dim"] or sam["hidden_size"] * sam["mlp_ratio"])


class _DeepseekDecoder:
    """DeepSeek's mixture of experts with plain multi-head attention, as both OCR models use it."""

    def __init__(self, text: Config) -> None:
        if text.get("use_mla") or text.get("kv_lora_rank"):
            raise UnknownArchitecture("this decoder compresses its cache (MLA); the classes of these models do not")
        self._text = text
        self._hidden = text["hidden_size"]
        self._head = self._hidden // text["num_attention_heads"]
        self._keys = self._head * (text["num_key_value_heads"] or text["num_attention_heads"])
        self._sparse = _sparse_layers(text)

    @property
    def parameters(self) -> int:
        """Return all of them, embedding and head included."""
        text, hidden, bias = self._text, self._hidden, self._text["attention_bias"]
        attention = 2 * (hidden * hidden + bias * hidden) + 2 * (hidden * self._keys + bias * self._keys)
        dense = self._mlp(text["intermediate_size"])
        sparse = (
            3 * text["n_routed_experts"] * hidden * text["moe_intermediate_size"]
            + self._mlp(text["moe_intermediate_size"] * text["n_shared_experts"])
            + text["n_routed_experts"] * hidden
        )
        layers: int = depth(text) * (attention + 2 * hidden) + self._sparse * sparse + self._dense * dense
        return int(layers + hidden + text["vocab_size"] * hidden * (1 if text["tie_word_embeddings"] else 2))

    def below(self, *, parameters: int, page: ImageShape, tile: ImageShape, window: int | None = None) -> ModelShape:
        """Return a model of this decoder below a vision encoder of so many parameters, which makes these images."""
        text, hidden = self._text, self._hidden
        chosen, inner = text["num_experts_per_tok"] or 1, text["moe_intermediate_size"]
        attention = 5 * hidden + 4 * self._keys
        dense = 3 * hidden + 3 * text["intermediate_size"] if self._dense else 0
        sparse = 4 * hidden + chosen * (2 * hidden + 3 * inner) if self._sparse else 0
        return ModelShape(
            parameters=parameters + self.parameters,
            # The routers choose in 32 bit.
            parameters_in_float32=self._sparse * text["n_routed_experts"] * hidden,
            page=page,
            tile=tile,
            separator_tokens=1,
            layers=depth(text),
            hidden=hidden,
            cache_per_token=2 * depth(text) * self._keys,
            window=window,
            activations_per_token=max(attention, dense, sparse),
            has_mask=window is not None,
            vocabulary=text["vocab_size"],
            context_tokens=text["max_position_embeddings"],
        )

    @property
    def _dense(self) -> int:
        return depth(self._text) - self._sparse

    def _mlp(self, inner: int) -> int:
        return int(3 * self._hidden * inner + int(self._text["mlp_bias"]) * (2 * inner + self._hidden))


def _sparse_layers(text: Config) -> int:
    if (types := text["mlp_layer_types"]) is not None:
        return sum(kind == "sparse" for kind in types)
    return max(0, depth(text) - int(text["first_k_dense_replace"]))
