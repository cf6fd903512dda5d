"""Tiny models of the classes that write whole pages, with tokenizers and processors; only for tests that need torch."""

from itertools import pairwise
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

from tests import tiny_models
from tests.tiny_models import CLASSES

SPECIAL = ("<pad>", "<bos>", "<eos>", "<image>", "<PAGE>", "<img>", "</img>", "<|det|>", "<|/det|>")
"""By their numbers; what stands for an image is number 3 in all of `tiny_models`."""
IMAGE, PAGE, END = SPECIAL.index("<image>"), SPECIAL.index("<PAGE>"), SPECIAL.index("<eos>")
_CONFIGS = {
    "deepseek-ocr2": tiny_models.deepseek_ocr2,
    "qianfan-ocr": tiny_models.qianfan_ocr,
    "unlimited-ocr": tiny_models.unlimited_ocr,
}


def built(name: str, folder: Path, chains: dict[str, list[int]]) -> Path:
    """Write a model of the class that an engine loads into a folder, as `save_pretrained` does, and return that.

    Args: chains is what it says, by the last character of what it is asked; no token may stand in them twice.
    """
    torch.manual_seed(0)
    config = _CONFIGS[name]
    made = config()
    tokenizer = _tokenizer(name)
    made.get_text_config().vocab_size = len(tokenizer)
    model = CLASSES[config](made)
    _teach(model, chains)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = END, 0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if name == "qianfan-ocr":
        _qianfan(tokenizer).save_pretrained(folder)
    return folder


def token(character: str) -> int:
    """Return the number of a character of one byte."""
    return len(SPECIAL) + sorted(pre_tokenizers.ByteLevel.alphabet()).index(
        {" ": "Ġ", "\n": "Ċ"}.get(character, character)
    )


def _teach(model, chains):
    """Let a model say after each start, however it was asked, the tokens of its chain, each after the one before.

    Its layers then pass on what they are given, and its head knows of each token the next.
    """
    with torch.no_grad():
        for name, weights in model.model.language_model.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weights.zero_()
        known, head = model.get_input_embeddings().weight, model.lm_head.weight
        known.normal_()
        head.zero_()
        for start, said in chains.items():
            for before, after in pairwise([token(start), *said]):
                head[after] += known[before]


def _tokenizer(name: str):
    vocabulary = dict.fromkeys(SPECIAL) | dict.fromkeys(sorted(pre_tokenizers.ByteLevel.alphabet()))
    bytes_alone = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(vocabulary)}, merges=[]))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    more = {}
    if name == "qianfan-ocr":
        more["extra_special_tokens"] = {
            "start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<image>",
        }  # fmt: skip
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytes_alone, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", **more
    )
    tokenizer.add_tokens([AddedToken(word, special=True) for word in SPECIAL[3:]], special_tokens=True)
    return tokenizer


def _qianfan(tokenizer):
    tokenizer.chat_template = (
        "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>\n"
        "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    )
    images = GotOcr2ImageProcessorPil(size={"height": 112, "width": 112}, crop_to_patches=True)
    return transformers.QianfanOCRProcessor(
        image_processor=images, tokenizer=tokenizer, image_seq_length=16, chat_template=tokenizer.chat_template
    )
