"""What models that generate text are given at once is what fits, and gives up first what costs the least."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.batches import ANY, BatchBound
from pipeline.domain.chunk_memory import ChunkTime, chunk_pages
from pipeline.domain.document import PageClass
from pipeline.domain.memory import DoesNotFit, DType, Workload, usable_bytes
from pipeline.domain.model_shapes import shape_of
from pipeline.domain.sequence_memory import SequenceModel, most_pixels, tiles_within
from tests.builders import facts

GIB = 2**30
UNLIMITED = SequenceModel(
    config={"model_type": "unlimited_ocr"},
    dtype=DType.BFLOAT16,
    together=Workload(pages=20, output_tokens=1200, images_at_once=1),
    alone=Workload(tiles=6, output_tokens=1200),
)
QIANFAN = SequenceModel(
    config={"model_type": "qianfan_ocr", "text_config": {"hidden_size": 2560, "intermediate_size": 9728,
            "num_hidden_layers": 36, "num_key_value_heads": 8}},
    dtype=DType.BFLOAT16,
    together=Workload(batch=8, tiles=12, output_tokens=4096, images_at_once=12),
    alone=Workload(tiles=12, output_tokens=4096, images_at_once=12),
)  # fmt: skip
TIME = ChunkTime(target=timedelta(seconds=60), page=timedelta(seconds=2), max_pages=50)


@given(engine=st.sampled_from([UNLIMITED, QIANFAN]), gib=st.integers(12, 96), more=st.floats(1.0, 4.0))
def test_what_may_be_read_together_fits_with_its_correction(engine, gib, more):
    try:
        bound = engine.bound(gib * GIB, correction=more)
    except DoesNotFit:
        return
    planned = engine.planned_bytes(pages=bound.pages, pixels=1)
    if bound.page_pixels is bound.page_tokens is None:
        corrected = engine.weights_bytes + (planned - engine.weights_bytes) * more
        assert corrected <= usable_bytes(gib * GIB) * 1.0001
    assert 1 <= bound.pages <= engine.together.batch * engine.together.pages


def test_a_large_card_gives_nothing_up_and_a_small_one_pages_first_then_tiles():
    assert UNLIMITED.bound(80 * GIB).pages == 20
    assert UNLIMITED.bound(80 * GIB).page_pixels is None
    assert (UNLIMITED.bound(int(8.2 * GIB)).pages, UNLIMITED.bound(int(8.2 * GIB)).page_pixels) == (9, None)
    # A page alone is seen as a whole, in none of its six tiles.
    assert UNLIMITED.bound(8 * GIB) == BatchBound(pages=1, pixels=ANY.pixels, page_pixels=1024**2)
    assert [QIANFAN.bound(gib * GIB).pages for gib in (12, 16, 24)] == [1, 4, 8]


def test_a_page_that_could_only_be_guessed_at_does_not_fit():
    assert QIANFAN.bound(11 * GIB).page_pixels == 5 * 448**2 - 1
    with pytest.raises(DoesNotFit, match="one legible page needs"):
        QIANFAN.bound(int(10.4 * GIB))


@given(engine=st.sampled_from([UNLIMITED, QIANFAN]), tiles=st.integers(0, 40))
def test_a_page_within_its_pixels_is_seen_in_no_more_than_its_tiles(engine, tiles):
    shape = shape_of(engine.config)
    assert tiles_within(shape, most_pixels(shape, tiles)) <= tiles


def test_less_than_was_planned_for_widens_nothing():
    assert QIANFAN.bound(16 * GIB, correction=0.25) == QIANFAN.bound(16 * GIB)


def test_chunks_are_whole_sequences_within_the_time_on_the_smallest_card_that_can_read():
    scans = facts(40, PageClass.SCAN)
    pages = chunk_pages(UNLIMITED, [80 * GIB, 24 * GIB, 4 * GIB], scans, time=TIME)
    assert pages % min(UNLIMITED.bound(24 * GIB).pages, TIME.pages) == 0
    assert 1 <= pages <= TIME.pages
    with pytest.raises(DoesNotFit, match="one page needs"):
        chunk_pages(UNLIMITED, [4 * GIB], scans, time=TIME)
