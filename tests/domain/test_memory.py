"""What is planned for a device: the published sizes, what grows with what, and what fits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.errors import ErrorCode
from pipeline.domain.memory import (
    MARGIN,
    DoesNotFit,
    DType,
    Workload,
    budget,
    plan_memory,
    sequence_tokens,
    usable_bytes,
)
from pipeline.domain.model_shapes import UnknownArchitecture, shape_of
from pipeline.domain.pixel_memory import PP_OCRV6_SMALL_DETECTOR

UNLIMITED = {"model_type": "unlimited_ocr"}
"""As published: every size is the default of its class."""
QIANFAN = {
    "model_type": "qianfan_ocr",
    "text_config": {"hidden_size": 2560, "num_hidden_layers": 36, "num_key_value_heads": 8, "intermediate_size": 9728},
}
"""A Qwen3 of 4B under the default vision tower."""
GIB = 2**30
GB = 10**9


def works(**fixed):
    sizes = {
        "batch": st.integers(1, 8), "pages": st.integers(1, 40), "tiles": st.integers(0, 6),
        "prompt_tokens": st.integers(1, 100), "output_tokens": st.integers(1, 5000),
        "images_at_once": st.none() | st.integers(1, 4),
    }  # fmt: skip
    return st.builds(Workload, **(sizes | {name: st.just(value) for name, value in fixed.items()}))


def test_the_published_claim_for_one_long_sequence_is_its_configuration_and_arithmetic():
    # 47.00 GB of cache with full attention, 1.77 GB with the window, at the same length: docs/memory.md.
    shape = shape_of(UNLIMITED)
    per_token = shape.cache_per_token * DType.BFLOAT16.size_bytes
    assert per_token == 2 * 12 * 10 * 128 * 2 == 61_440
    prompt, generated = 28_681, 736_293
    assert round((prompt + generated) * per_token / GB, 2) == 47.00
    assert round((prompt + shape.window) * per_token / GB, 2) == 1.77
    work = Workload(prompt_tokens=prompt - 273, output_tokens=generated)
    assert plan_memory(UNLIMITED, DType.BFLOAT16, work).cache_bytes == (prompt + shape.window) * per_token


def test_the_older_form_of_the_configuration_says_the_same():
    older = {"model_type": "unlimited-ocr", "sliding_window": 128, "language_config": {"first_k_dense_replace": 1}}
    assert shape_of(older) == shape_of(UNLIMITED)


def test_a_window_keeps_the_cache_constant_once_it_is_full():
    caches = [
        plan_memory(UNLIMITED, DType.BFLOAT16, Workload(output_tokens=tokens)).cache_bytes
        for tokens in (1, 127, 128, 129, 30_000)
    ]
    assert caches[0] < caches[1] < caches[2] == caches[3] == caches[4]


def test_full_attention_grows_by_one_token_at_a_time_and_grouped_queries_count_their_keys_only():
    shorter, longer = (
        plan_memory(QIANFAN, DType.BFLOAT16, Workload(output_tokens=tokens)).cache_bytes for tokens in (100, 101)
    )
    assert longer - shorter == 2 * 36 * 8 * 128 * 2


def test_images_encoded_one_by_one_take_the_memory_of_one():
    together, apart = (
        plan_memory(UNLIMITED, DType.BFLOAT16, Workload(pages=20, output_tokens=500, images_at_once=number))
        for number in (None, 1)
    )
    assert together.activations_bytes > 15 * GIB
    assert apart.activations_bytes < 2 * GIB
    assert together.cache_bytes == apart.cache_bytes


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama"},
        {},
        {"model_type": "deepseek_ocr2", "text_config": {"kv_lora_rank": 512}},
        {"model_type": "qianfan_ocr", "text_config": {"model_type": "qwen2"}},
        {"model_type": "vision-encoder-decoder", "encoder": {"model_type": "donut-swin"}},
    ],
)
def test_what_is_not_known_is_not_guessed(config):
    with pytest.raises(UnknownArchitecture):
        plan_memory(config, DType.BFLOAT16, Workload())


@given(work=works(), gib=st.integers(1, 96), config=st.sampled_from([UNLIMITED, QIANFAN]))
def test_what_fits_is_within_the_budget_the_context_and_what_was_wanted(work, gib, config):
    least = Workload(prompt_tokens=work.prompt_tokens, output_tokens=1, images_at_once=work.images_at_once)
    needed = plan_memory(config, DType.BFLOAT16, least).total_bytes
    if needed > usable_bytes(gib * GIB):
        with pytest.raises(DoesNotFit) as raised:
            budget(config, DType.BFLOAT16, gib * GIB, work)
        assert raised.value.needed_bytes == needed
        return
    fit = budget(config, DType.BFLOAT16, gib * GIB, work)
    assert fit.plan.total_bytes <= fit.usable_bytes == int(gib * GIB * (1 - MARGIN))
    assert sequence_tokens(shape_of(config), fit.work) <= shape_of(config).context_tokens
    for name in ("batch", "pages", "tiles", "output_tokens"):
        assert getattr(fit.work, name) <= getattr(work, name)
    assert fit.work.prompt_tokens == work.prompt_tokens


@given(work=works(), gib=st.integers(8, 48))
def test_more_memory_never_fits_less(work, gib):
    smaller, larger = (budget(UNLIMITED, DType.BFLOAT16, size * GIB, work).work for size in (gib, gib + 8))
    order = ("output_tokens", "tiles", "pages", "batch")
    assert [getattr(smaller, name) for name in order] <= [getattr(larger, name) for name in order]


def test_pages_are_given_up_before_tiles_and_tiles_before_text():
    work = Workload(pages=30, tiles=6, output_tokens=900, images_at_once=1)
    assert budget(UNLIMITED, DType.BFLOAT16, 80 * GIB, work).work.tiles == 6
    of_two_pages = plan_memory(UNLIMITED, DType.BFLOAT16, replace(work, pages=2)).total_bytes
    tight = budget(UNLIMITED, DType.BFLOAT16, of_two_pages, work, margin=0).work
    assert (tight.pages, tight.tiles, tight.output_tokens) == (2, 6, 900)
    of_one_page = plan_memory(UNLIMITED, DType.BFLOAT16, replace(work, pages=1)).total_bytes
    tighter = budget(UNLIMITED, DType.BFLOAT16, of_one_page - 1, work, margin=0).work
    assert (tighter.pages, tighter.output_tokens) == (1, 900)
    assert tighter.tiles < 6


def test_what_can_not_fit_says_what_is_needed_and_what_there_is():
    with pytest.raises(DoesNotFit) as raised:
        budget(UNLIMITED, DType.BFLOAT16, 4 * GIB, Workload())
    assert raised.value.code is ErrorCode.DOES_NOT_FIT
    assert raised.value.usable_bytes == int(4 * GIB * (1 - MARGIN))
    assert "7.0" in raised.value.message
    assert "3.52 GiB" in raised.value.message


@given(total=st.integers(20_000_000, 10**11), pixels=st.integers(1, 40_000_000))
def test_a_batch_of_pages_is_as_large_as_its_pixels_allow(total, pixels):
    model, usable = PP_OCRV6_SMALL_DETECTOR, usable_bytes(total)
    if model.plan(pixels=pixels).total_bytes > usable:
        with pytest.raises(DoesNotFit):
            model.batch(total, pixels=pixels)
        return
    fitting = model.batch(total, pixels=pixels)
    assert model.plan(pixels=pixels, batch=fitting).total_bytes <= usable
    assert model.plan(pixels=pixels, batch=fitting + 1).total_bytes > usable
