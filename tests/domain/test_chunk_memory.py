"""Chunks keep to the memory and the time of a device, and are a whole number of what is read together."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.chunk_memory import ChunkTime, plan_images, plan_sequences
from pipeline.domain.memory import DoesNotFit, DType, Workload, usable_bytes
from pipeline.domain.pixel_memory import PP_OCRV6_SMALL_DETECTOR

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
