"""Whatever is wrong with a file, it has one of the outcomes that there are; `benchmarks/fuzz.py` looks for longer."""

import struct
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.adapters.documents.inspection import BoundedInspector
from pipeline.domain.errors import ErrorCode, Rejected
from tests.adapters.documents.builders import image_bytes, limits, picture
from tests.adapters.documents.mutations import found_seeds, made_seeds, mutated
from tests.adapters.documents.reading_child import readers
from tests.adapters.documents.zips import zip_bytes
from tests.pages import shared

# Small, so that a file takes no time, and what is not bounded by them is seen to take more memory than it should.
LIMITS = limits(max_image_pixels=20_000_000, max_render_pixels=4_000_000)
BOUNDS = {"timeout": timedelta(seconds=120), "max_memory_bytes": 1024**3}
FILES = 100
MOST_BYTES = 400 * 1024**2

TYPED = {
    "ok",
    ErrorCode.DAMAGED,
    ErrorCode.DECOMPRESSION_BOMB,
    ErrorCode.EMPTY_FILE,
    ErrorCode.NOT_A_DOCUMENT,
    ErrorCode.PAGE_DAMAGED,
    ErrorCode.PAGE_TOO_LARGE,
    ErrorCode.PASSWORD_REQUIRED,
    ErrorCode.TOO_MANY_PAGES,
    ErrorCode.UNSUPPORTED_TYPE,
    ErrorCode.ZERO_PAGES,
}


@pytest.mark.parametrize(("source", "first"), [("made", 0), ("corpus", 0), ("corpus", 100), ("corpus", 200)])
def test_each_malformed_file_has_a_typed_outcome_and_kills_no_reader(tmp_path: Path, source: str, first: int) -> None:
    seeds = made_seeds() if source == "made" else found_seeds(shared("corpus"))
    path = tmp_path / "document"
    outcomes = {}
    with readers(LIMITS, **BOUNDS) as reading:
        for number in range(first, first + FILES):
            path.write_bytes(mutated(seeds, number))
            outcomes[number] = reading.read(path)
    assert {number: found for number, found in outcomes.items() if found.code not in TYPED} == {}
    assert max(found.peak_bytes for found in outcomes.values()) < MOST_BYTES
    # Some get to the pixels of a page, others are stopped on the way there: else all of them test the same.
    counts = Counter(found.code for found in outcomes.values())
    assert {"ok", ErrorCode.DAMAGED, ErrorCode.PAGE_DAMAGED, ErrorCode.NOT_A_DOCUMENT} <= counts.keys()
    assert FILES / 5 < counts["ok"] < FILES * 3 / 4


def lengths_of_chunks(png: bytes) -> list[int]:
    """Where in a PNG the lengths of its chunks stand."""
    found, place = [], len(b"\x89PNG\r\n\x1a\n")
    while place < len(png):
        found.append(place)
        place += 12 + struct.unpack_from(">I", png, place)[0]
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_no_chunk_of_a_png_takes_more_memory_than_it_has(tmp_path: Path, packed: bool) -> None:
    whole = image_bytes(picture(400, 300), "PNG")
    path = tmp_path / "document"
    lengths = lengths_of_chunks(whole)
    assert len(lengths) > 2
    with readers(LIMITS, **BOUNDS) as reading:
        for place in lengths:
            content = bytearray(whole)
            struct.pack_into(">I", content, place, 2**31 - 1)
            path.write_bytes(zip_bytes({"a.png": bytes(content)}) if packed else content)
            outcome = reading.read(path)
            assert outcome.code in TYPED
            assert outcome.peak_bytes < MOST_BYTES


@pytest.mark.parametrize("number", range(8))
def test_the_products_own_child_says_the_same(tmp_path: Path, number: int) -> None:
    path = tmp_path / "document"
    path.write_bytes(mutated(made_seeds(), number))
    with readers(LIMITS, **BOUNDS) as reading:
        expected = reading.read(path).code
    try:
        BoundedInspector(LIMITS, **BOUNDS).inspect(path)
        found = "ok"
    except Rejected as refusal:
        found = refusal.code
    # A page that looks well and can't be rendered is found out by who renders it.
    assert found == expected or (expected == ErrorCode.PAGE_DAMAGED and found in ("ok", ErrorCode.DAMAGED))
