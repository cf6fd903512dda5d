"""Chunks keep to the memory and the time of a device, and are a whole number of what is read together."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.chunk_memory import ChunkTime, chunk_pages, plan_images, plan_sequences
from pipeline.domain.document import PageClass
from pipeline.domain.memory import DoesNotFit, DType, Workload, usable_bytes
from pipeline.domain.pixel_memory import PP_OCRV6_SMALL_DETECTOR, BatchModel, PixelModel
from tests.builders import facts

UNLIMITED = {"model_type": "unlimited_ocr"}
GIB = 2**30
A4 = 1654 * 2339

times = st.builds(
    ChunkTime,
    target=st.timedeltas(timedelta(seconds=1), timedelta(minutes=5)),
    page=st.timedeltas(timedelta(milliseconds=20), timedelta(minutes=1)),
    max_pages=st.integers(1, 200),
)
works = st.builds(
    Workload,
    batch=st.integers(1, 16),
    pages=st.integers(1, 60),
    output_tokens=st.integers(1, 2000),
    images_at_once=st.none() | st.just(1),
)


@given(gib=st.integers(8, 96), wanted=works, time=times)
def test_a_chunk_of_sequences_fits_the_memory_and_the_time(gib, wanted, time):
    chunk = plan_sequences(UNLIMITED, DType.BFLOAT16, gib * GIB, wanted, time)
    together = chunk.fit.work.pages * chunk.fit.work.batch
    assert chunk.fit.plan.total_bytes <= usable_bytes(gib * GIB)
    assert 1 <= together <= chunk.pages <= time.max_pages
    assert chunk.pages % together == 0
    assert chunk.pages == 1 or chunk.pages * time.page <= time.target
    # As long as another group would not fit into the time.
    assert chunk.pages + together > time.pages
    assert chunk.fit.work.pages <= wanted.pages
    assert chunk.fit.work.batch <= wanted.batch


@given(bytes_=st.integers(600_000_000, 96 * GIB), batch=st.integers(1, 64), time=times)
def test_a_chunk_of_images_fits_the_memory_and_the_time(bytes_, batch, time):
    chunk = plan_images(PP_OCRV6_SMALL_DETECTOR, bytes_, page_pixels=A4, max_batch=batch, time=time)
    assert PP_OCRV6_SMALL_DETECTOR.plan(pixels=A4, batch=chunk.batch).total_bytes <= usable_bytes(bytes_)
    assert chunk.batch * A4 <= chunk.pixels
    assert 1 <= chunk.batch <= min(batch, chunk.pages)
    assert chunk.pages % chunk.batch == 0
    assert chunk.pages <= time.pages


def test_more_memory_reads_more_pages_together_until_the_time_is_the_bound():
    time = ChunkTime(target=timedelta(seconds=60), page=timedelta(seconds=2), max_pages=50)
    wanted = Workload(pages=60, output_tokens=600)
    chunks = [plan_sequences(UNLIMITED, DType.BFLOAT16, gib * GIB, wanted, time) for gib in (8, 16, 24, 80)]
    assert [chunk.fit.work.pages for chunk in chunks] == [1, 9, 18, 30]
    assert [chunk.pages for chunk in chunks] == [30, 27, 18, 30]


def test_a_device_that_is_too_small_says_so_with_numbers():
    time = ChunkTime(target=timedelta(seconds=60), page=timedelta(seconds=2), max_pages=50)
    with pytest.raises(DoesNotFit) as raised:
        plan_sequences(UNLIMITED, DType.BFLOAT16, 4 * GIB, Workload(), time)
    assert raised.value.needed_bytes > raised.value.usable_bytes
    with pytest.raises(DoesNotFit):
        plan_images(PP_OCRV6_SMALL_DETECTOR, 100_000_000, page_pixels=A4, max_batch=8, time=time)


class TestChunkPages:
    """A device of 1 GB, an engine of 100 MB that takes 100 bytes for each pixel."""

    ENGINE = BatchModel(model=PixelModel(weights_bytes=100_000_000, bytes_per_pixel=100), pages=16)
    TIME = ChunkTime(target=timedelta(seconds=40), page=timedelta(seconds=1), max_pages=50)

    def pages(self, totals, megapixels=1.0, **more):
        scans = facts(20, PageClass.SCAN)
        side = (megapixels * 1e6) ** 0.5 * 72 / scans[0].dpi
        shaped = [replace(page, width_pt=side, height_pt=side) for page in scans]
        return chunk_pages(self.ENGINE, totals, shaped, time=self.TIME, **more)

    def test_a_chunk_is_as_many_whole_batches_as_the_time_allows(self):
        # 880 MB usable, 780 for pixels: 7 pages of a megapixel; 5 batches of them in 40 s.
        assert self.pages([1_000_000_000]) == 35

    def test_it_is_planned_for_the_smallest_device_that_can_read_a_page(self):
        assert self.pages([1_000_000_000, 400_000_000, 100_000_000]) == 40  # batches of 2

    def test_a_page_too_large_for_the_device_is_shown_smaller_and_refuses_nothing(self):
        assert self.pages([1_000_000_000], megapixels=40) == 40  # one by one

    def test_a_correction_makes_batches_smaller(self):
        assert self.pages([1_000_000_000], correction=2.0) == 39  # batches of 3

    def test_no_device_that_can_read_a_page_is_a_refusal(self):
        with pytest.raises(DoesNotFit, match="an image of 1000000 pixels needs"):
            self.pages([200_000_000, 100_000_000])
