import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.adapters.documents.inspection import BoundedInspector
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.ports.documents import Inspection
from tests.adapters.documents.builders import (
    LONG_TEXT,
    Page,
    drawn,
    filled_field,
    image_at,
    image_bytes,
    limits,
    pdf_bytes,
    picture,
    text,
    tiff_bytes,
)

Mutation = Callable[[bytearray, random.Random], bytes]

PDF = pdf_bytes(
    Page(text(*LONG_TEXT), annotations=[filled_field("Gudrun"), drawn("Stamp", b"0 0 50 20 re f")]),
    Page(image_at("scan", 0, 0, 612, 792), images={"scan": picture(200, 250)}, rotate=90),
    Page(),
)
ORIGINALS = {
    "pdf": PDF,
    "pdf again": PDF,
    "tiff": tiff_bytes(picture(60, 40), picture(30, 20), compression="tiff_adobe_deflate"),
    "group4": tiff_bytes(picture(60, 40).convert("1"), compression="group4"),
    "png": image_bytes(picture(60, 40), "PNG"),
    "jpeg": image_bytes(picture(60, 40), "JPEG"),
    "jp2": image_bytes(picture(60, 40), "JPEG2000"),
    "webp": image_bytes(picture(60, 40), "WEBP"),
    "bmp": image_bytes(picture(60, 40), "BMP"),
    "gif": image_bytes(picture(60, 40), "GIF"),
    "pnm": image_bytes(picture(60, 40), "PPM"),
}


def flipped(content: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 12)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def cut(content: bytearray, chance: random.Random) -> bytes:
    return bytes(content[: chance.randrange(1, len(content))])


def with_a_piece_moved(content: bytearray, chance: random.Random) -> bytes:
    first, second, third = sorted(chance.randrange(len(content)) for _ in range(3))
    return bytes(content[:first] + content[second:third] + content[first:second] + content[third:])


def with_large_numbers(content: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(content))
        content[at : at + 4] = chance.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"9999"])
    return bytes(content)


MUTATIONS: tuple[Mutation, ...] = (flipped, flipped, cut, with_a_piece_moved, with_large_numbers)


@pytest.mark.parametrize("mutation", range(len(MUTATIONS)))
@pytest.mark.parametrize("kind", ORIGINALS)
def test_a_mutated_file_is_read_or_refused_with_a_code(tmp_path: Path, kind: str, mutation: int) -> None:
    chance = random.Random(f"{kind} {mutation}")
    path = tmp_path / "mutant"
    path.write_bytes(MUTATIONS[mutation](bytearray(ORIGINALS[kind]), chance))
    found = outcome(path)
    if isinstance(found, Rejected):
        assert isinstance(found.code, ErrorCode)
        assert "crashed" not in found.message
    else:
        assert [page.number for page in found.facts] == list(range(1, found.page_count + 1))


def outcome(path: Path) -> Inspection | Rejected:
    try:
        return BoundedInspector(limits(), timeout=timedelta(seconds=20), max_memory_bytes=1024**3).inspect(path)
    except Rejected as refusal:
        return refusal
