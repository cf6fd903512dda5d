"""Tiny random models of the classes that the torch engines load; only for tests that need torch."""

import json

import transformers

_SAM = {
    "hidden_size": 32, "output_channels": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "global_attn_indexes": [], "downsample_channels": [48, 64],
}  # fmt: skip
_EXPERTS = {
    "vocab_size": 262, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "mlp_layer_types": ["dense", "sparse"], "n_group": 1, "topk_group": 1,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
IMAGE_TOKEN = 3


def deepseek_ocr2():
    encoder = {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 16,
    }  # fmt: skip
    return transformers.DeepseekOcr2Config(
        image_token_id=IMAGE_TOKEN,
        vision_config={"sam_config": _SAM | {"mlp_ratio": 2.0}, "encoder_config": encoder},
        text_config=_EXPERTS | {"max_position_embeddings": 4096},
    )


def unlimited_ocr():
    encoder = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return transformers.UnlimitedOcrConfig(
        image_token_id=IMAGE_TOKEN,
        vision_config={"sam_config": _SAM | {"mlp_dim": 64}, "encoder_config": encoder},
        text_config=_EXPERTS | {"sliding_window": 32},
    )


def unlimited_ocr_with_global_attention():
    """One layer of SAM looks over the whole page, as four of the published one's do; 134 MB for its two heads."""
    config = unlimited_ocr()
    config.vision_config.sam_config.global_attn_indexes = [0]
    return config


def qianfan_ocr():
    vision = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "image_size": [112, 112],
    }  # fmt: skip
    text = {
        "model_type": "qwen3", "vocab_size": 262, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 0,
    }  # fmt: skip
    return transformers.QianfanOCRConfig(
        image_token_id=IMAGE_TOKEN, image_seq_length=16, vision_config=vision, text_config=text
    )


def trocr():
    vision = {
        "model_type": "vit", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 512, "image_size": [32, 320], "patch_size": [32, 16],
    }  # fmt: skip
    text = {
        "model_type": "trocr", "vocab_size": 88, "d_model": 96, "decoder_layers": 2, "decoder_attention_heads": 4,
        "decoder_ffn_dim": 384, "max_position_embeddings": 64, "add_cross_attention": True, "is_decoder": True,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    return transformers.VisionEncoderDecoderConfig(
        encoder=vision, decoder=text, decoder_start_token_id=1, pad_token_id=0, eos_token_id=2
    )


CLASSES = {
    deepseek_ocr2: transformers.DeepseekOcr2ForConditionalGeneration,
    unlimited_ocr: transformers.UnlimitedOcrForConditionalGeneration,
    unlimited_ocr_with_global_attention: transformers.UnlimitedOcrForConditionalGeneration,
    qianfan_ocr: transformers.QianfanOCRForConditionalGeneration,
    trocr: transformers.VisionEncoderDecoderModel,
}


def written(config):
    """Return what a model's `config.json` would hold: only what differs from the class."""
    return json.loads(config.to_json_string())
