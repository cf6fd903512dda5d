"""The memory that is predicted is what the classes of transformers really allocate: tiny models that run, full ones
that exist in shape only.
"""

import gc
import json
import weakref

import pytest

from pipeline.domain.memory import DType, Workload, plan_memory, prefill_tokens
from pipeline.domain.model_shapes import shape_of
from pipeline.domain.pixel_memory import PP_OCRV6_SMALL_DETECTOR, PP_OCRV6_SMALL_RECOGNISER

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
transformers = pytest.importorskip("transformers", reason="the extra `torch` is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402 - after the skip
from torch.utils._pytree import tree_leaves  # noqa: E402

from tests import tiny_models  # noqa: E402
from tests.tiny_models import CLASSES, IMAGE_TOKEN, written  # noqa: E402
from tests.torch_marks import IN_TORCH  # noqa: E402

pytestmark = IN_TORCH
PROMPT = 9
torch.set_num_threads(1)


class Live(TorchDispatchMode):
    """Counts the bytes of the tensors that are alive, as a device's allocator does, and remembers the most."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._known = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        results = operation(*args, **(kwargs or {}))
        for tensor in tree_leaves(results):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return results

    def _count(self, storage):
        if storage._cdata not in self._known:
            size = storage.nbytes()
            self._known.add(storage._cdata)
            weakref.finalize(storage, self._forget, storage._cdata, size)
            self.now += size
            self.peak = max(self.peak, self.now)

    def _forget(self, address, size):
        self._known.discard(address)
        self.now -= size


def model_of(config, dtype=torch.float32):
    torch.manual_seed(0)
    model = CLASSES[config](config()).to(dtype).eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    return model


def inputs(config, work):
    """Return what a processor would give a model for a workload."""
    shape = shape_of(written(config()))
    if shape.page.tokens == 0:
        return {"pixel_values": torch.randn(work.batch, 3, 32, 320)}
    length = prefill_tokens(shape, work)
    tokens = torch.full((work.batch, length), 5)
    tokens[:, : length - work.prompt_tokens] = IMAGE_TOKEN
    given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    pages = work.batch * work.pages
    if config is tiny_models.qianfan_ocr:
        return given | {"pixel_values": torch.randn(pages * (1 + work.tiles), 3, 112, 112)}
    given["pixel_values"] = torch.randn(pages, 3, 1024, 1024)
    if work.tiles:
        given["pixel_values_local"] = torch.randn(pages * work.tiles, 3, 768, 768)
        given["num_local_patches"] = [work.tiles] * pages
    return given


def generate(config, work):
    """Return the cache's bytes after a generation, and the most that was alive beside the weights."""
    model, given = model_of(config), inputs(config, work)
    tokens = work.pages * work.output_tokens
    gc.collect()
    with Live() as live, torch.inference_mode():
        given = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in given.items()}
        made = model.generate(
            **given, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, return_dict_in_generate=True
        )
    return cached(made.cache if "cache" in made else made.past_key_values), live.peak


def cached(cache):
    parts = (
        [cache.self_attention_cache, cache.cross_attention_cache]
        if hasattr(cache, "cross_attention_cache")
        else [cache]
    )
    names = ("keys", "values", "prefill_keys", "prefill_values")
    tensors = [getattr(layer, name, None) for part in parts for layer in part.layers for name in names]
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


WORK = [
    (tiny_models.deepseek_ocr2, Workload(prompt_tokens=PROMPT, output_tokens=20)),
    (tiny_models.deepseek_ocr2, Workload(prompt_tokens=PROMPT, output_tokens=20, batch=2, tiles=2)),
    (tiny_models.unlimited_ocr, Workload(prompt_tokens=PROMPT, output_tokens=20)),
    (tiny_models.unlimited_ocr, Workload(prompt_tokens=PROMPT, output_tokens=20, pages=2, batch=2)),
    (tiny_models.unlimited_ocr_with_global_attention, Workload(prompt_tokens=PROMPT, output_tokens=2)),
    (tiny_models.qianfan_ocr, Workload(prompt_tokens=PROMPT, output_tokens=40)),
    (tiny_models.qianfan_ocr, Workload(prompt_tokens=PROMPT, output_tokens=40, tiles=4, batch=3)),
    (tiny_models.trocr, Workload(prompt_tokens=1, output_tokens=30)),
    (tiny_models.trocr, Workload(prompt_tokens=1, output_tokens=30, batch=8)),
]


@pytest.mark.parametrize("config", CLASSES, ids=lambda config: config.__name__)
def test_parameters_are_counted_exactly(config):
    assert shape_of(written(config())).parameters == sum(p.numel() for p in model_of(config).parameters())


FULL = {
    tiny_models.deepseek_ocr2: lambda: transformers.DeepseekOcr2Config(
        text_config={"num_experts_per_tok": 6, "mlp_layer_types": ["dense", *["sparse"] * 31], "attention_bias": True}
    ),
    tiny_models.unlimited_ocr: transformers.UnlimitedOcrConfig,
    tiny_models.qianfan_ocr: lambda: transformers.QianfanOCRConfig(text_config={"model_type": "qwen3"}),
    tiny_models.trocr: lambda: transformers.VisionEncoderDecoderConfig(
        encoder={"model_type": "vit", "image_size": 384},
        decoder={"model_type": "trocr", "cross_attention_hidden_size": 768, "add_cross_attention": True},
    ),
}


@pytest.mark.parametrize("config", FULL, ids=lambda config: config.__name__)
def test_parameters_of_full_size_models_are_counted_exactly(config):
    made = FULL[config]()
    with torch.device("meta"):
        parameters = sum(p.numel() for p in CLASSES[config](made).parameters())
    for only_differences in (True, False):
        assert shape_of(json.loads(made.to_json_string(use_diff=only_differences))).parameters == parameters


@pytest.mark.parametrize("config", CLASSES, ids=lambda config: config.__name__)
def test_weights_in_sixteen_bit_are_what_is_loaded(config, tmp_path):
    model_of(config).save_pretrained(tmp_path)
    model = CLASSES[config].from_pretrained(tmp_path, dtype=torch.bfloat16, local_files_only=True)
    plan = plan_memory(json.loads((tmp_path / "config.json").read_text()), DType.BFLOAT16, Workload())
    assert plan.weights_bytes == sum(p.nbytes for p in model.parameters())


@pytest.mark.parametrize(("config", "work"), WORK)
def test_the_cache_and_the_peak_are_predicted(config, work):
    cache, peak = generate(config, work)
    plan = plan_memory(written(config()), DType.FLOAT32, work)
    assert plan.cache_bytes == pytest.approx(cache, rel=0.1)
    # Never much too little; too much by what the encoder-decoder's queries, keys and values are counted for.
    assert 0.9 < (plan.activations_bytes + plan.cache_bytes) / peak < 1.5


def test_a_reference_sliding_window_does_not_grow_with_the_text_and_full_attention_does():
    short, long = (Workload(prompt_tokens=PROMPT, output_tokens=tokens) for tokens in (40, 60))
    for config, grows in ((tiny_models.unlimited_ocr, False), (tiny_models.qianfan_ocr, True)):
        measured = [generate(config, work)[0] for work in (short, long)]
        planned = [plan_memory(written(config()), DType.FLOAT32, work).cache_bytes for work in (short, long)]
        assert (measured[1] > measured[0]) == grows
        assert (planned[1] > planned[0]) == grows


def ppocr_detector():
    stages = [
        [[3, 48, 48, 1, True], [3, 48, 48, 1, False]],
        [[3, 48, 96, 2, False], [3, 96, 96, 1, True], [3, 96, 96, 1, False]],
        [[3, 96, 192, 2, False], *2 * [[3, 192, 192, 1, True], [3, 192, 192, 1, False]]],
        [[3, 192, 384, 2, False], [3, 384, 384, 1, True], [3, 384, 384, 1, False]],
    ]
    backbone = {
        "model_type": "pp_lcnet_v4",
        "stem_type": "large",
        "stem_channels": [3, 24, 48],
        "block_configs": stages,
    }
    backbone["out_features"] = ["stage1", "stage2", "stage3", "stage4"]
    config = transformers.PPOCRV6SmallDetConfig(layer_list_out_channels=[48, 96, 192, 384], backbone_config=backbone)
    return transformers.AutoModelForObjectDetection.from_config(config).eval()


def ppocr_recogniser():
    config = transformers.PPOCRV6SmallRecConfig(head_out_channels=18710)
    return transformers.AutoModelForTextRecognition.from_config(config).eval()


@pytest.mark.parametrize(
    ("make", "known", "shapes"),
    [
        (ppocr_detector, PP_OCRV6_SMALL_DETECTOR, [(1, 320, 320), (2, 320, 480)]),
        (ppocr_recogniser, PP_OCRV6_SMALL_RECOGNISER, [(1, 48, 320), (6, 48, 480)]),
    ],
)
def test_detectors_and_recognisers_take_memory_by_the_pixel(make, known, shapes):
    model = make()
    weights = sum(p.nbytes for p in model.parameters()) + sum(b.nbytes for b in model.buffers())
    for batch, height, width in shapes:
        with Live() as live, torch.inference_mode():
            model(pixel_values=torch.randn(batch, 3, height, width))
        plan = known.plan(pixels=height * width, batch=batch)
        assert plan.weights_bytes == weights
        assert plan.activations_bytes == pytest.approx(live.peak, rel=0.1)
