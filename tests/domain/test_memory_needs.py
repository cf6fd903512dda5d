"""What engines take of an accelerator, written on a device's row and read by those who plan."""

import json

import pytest

from pipeline.domain.memory import DType, Workload
from pipeline.domain.memory_needs import needs_from_json, needs_to_json
from pipeline.domain.pixel_memory import BatchModel, PixelModel
from pipeline.domain.sequence_memory import SequenceModel

PIXELS = BatchModel(model=PixelModel(weights_bytes=10**8, bytes_per_pixel=131.5, at_once=10**6), pages=16)
SEQUENCES = SequenceModel(
    config={"model_type": "unlimited_ocr", "text_config": {"sliding_window": 32}},
    dtype=DType.BFLOAT16,
    together=Workload(pages=20, output_tokens=1024, images_at_once=1),
    alone=Workload(tiles=6),
)


@pytest.mark.parametrize("model", [PIXELS, SEQUENCES])
def test_what_is_read_back_plans_the_same(model):
    again = needs_from_json(json.loads(json.dumps(needs_to_json(model))))
    assert again == model
    assert again.bound(40 * 10**9) == model.bound(40 * 10**9)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {**needs_to_json(PIXELS), "by": "guesswork"},
        {**needs_to_json(PIXELS), "model": {"beads": 3}},
        {**needs_to_json(SEQUENCES), "config": {"model_type": "unheard_of"}},
        {**needs_to_json(SEQUENCES), "dtype": "float3"},
    ],
)
def test_what_a_later_version_wrote_is_no_plan(row):
    with pytest.raises(ValueError, match=r"not known here|can.t be read here|float3"):
        needs_from_json(row)
