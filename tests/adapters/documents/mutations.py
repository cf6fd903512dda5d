"""Documents gone wrong in the ways that documents do, and in those that somebody means them to; the same each time."""

import random
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pikepdf
from PIL import Image

from tests.adapters.documents.builders import (
    Page,
    drawn,
    filled_field,
    image_at,
    image_bytes,
    pdf_bytes,
    picture,
    text,
    tiff_bytes,
)
from tests.adapters.documents.zips import zip_bytes

_EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 65_537, 10**9)
_NUMBER_AFTER_KEY = re.compile(
    rb"(/(?:Length|Count|W|Width|Height|Size|N|First|Columns|BitsPerComponent|Kids)\s*|startxref\s+)\d+"
)
_OBJECT_REFERENCE = re.compile(rb"\d+ 0 R")
_LONGEST_SEED_BYTES = 400_000

Mutation = Callable[[bytearray, Sequence[bytes], random.Random], None]


def flip_bits(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Turn some bits, as failing disks and cables do."""
    for _flip in range(chance.choice((1, 4, 32, 256))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def blank_out(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Lose a sector or several."""
    start = chance.randrange(len(content))
    length = min(chance.choice((16, 512, 4096)), len(content) - start)
    content[start : start + length] = bytes([chance.choice((0, 0xFF))]) * length


def cut_short(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """End early, as uploads do."""
    del content[chance.randrange(1, len(content) + 1) :]


def take_out(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Lose a piece of the middle, so that all that follows moves up."""
    start = chance.randrange(len(content))
    del content[start : start + chance.choice((1, 7, 100, 5000))]


def splice(content: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    """Put in a piece of another file."""
    other = chance.choice(others)
    start = chance.randrange(len(other))
    at = chance.randrange(len(content))
    content[at:at] = other[start : start + chance.choice((10, 300, 4000))]


def repeat(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Write a piece twice."""
    start = chance.randrange(len(content))
    content[start:start] = content[start : start + chance.choice((8, 200, 3000))]


def change_number(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Let a length, size or count of a PDF say something else."""
    if found := list(_NUMBER_AFTER_KEY.finditer(content)):
        one = chance.choice(found)
        content[one.start() : one.end()] = one[1] + str(chance.choice((-1, *_EXTREMES))).encode()


def change_reference(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Let something in a PDF refer to another object: loops, wrong types, nothing at all."""
    if found := list(_OBJECT_REFERENCE.finditer(content)):
        one = chance.choice(found)
        content[one.start() : one.end()] = b"%d 0 R" % chance.randrange(len(found) + 3)


def change_field(content: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """Let a binary field near the beginning or the end say something extreme."""
    width = chance.choice((1, 2, 4))
    reach = min(len(content), chance.choice((64, 4096)))
    at = chance.randrange(reach) if chance.random() < 0.7 else len(content) - 1 - chance.randrange(reach)
    value = chance.choice(_EXTREMES) & ((1 << 8 * width) - 1)
    content[at : at + width] = value.to_bytes(width, chance.choice(("big", "little")))


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    blank_out,
    cut_short,
    take_out,
    splice,
    repeat,
    change_number,
    change_reference,
    change_field,
)


def mutated(seeds: Sequence[bytes], seed: int) -> bytes:
    """One of the files, gone wrong in up to four ways; the same number gives the same file."""
    chance = random.Random(seed)
    content = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 4)):
        chance.choice(MUTATIONS)(content, seeds, chance)
        if not content:
            content += b"\0"
    return bytes(content)


def made_seeds() -> list[bytes]:
    """A small document of each kind, made here."""
    noise = Image.fromarray(np.random.default_rng(7).integers(0, 256, (60, 90), np.uint8))
    return [*_pdfs(), *_pictures(noise), *_archives(image_bytes(noise, "PNG"))]


def _pdfs() -> list[bytes]:
    scan = Page(image_at("scan", 0, 0, 612, 792), images={"scan": picture(200, 260)})
    form = Page(text("Name"), annotations=[filled_field("Gudrun"), drawn("Stamp", b"0 0 40 20 re f")])
    owned = pikepdf.Encryption(owner="owner", user="")
    return [
        pdf_bytes(Page(text("One")), scan, Page()),
        pdf_bytes(Page(text("Two")), scan, form, object_stream_mode=pikepdf.ObjectStreamMode.generate),
        pdf_bytes(Page(text("Three")), scan, encryption=owned),
    ]


def _pictures(noise: Image.Image) -> list[bytes]:
    deep = Image.fromarray(np.asarray(noise, np.uint16) * 257)
    return [
        tiff_bytes(picture(80, 60), picture(60, 80)),
        image_bytes(noise.convert("1"), "TIFF", compression="group4"),
        image_bytes(noise, "TIFF", compression="tiff_lzw"),
        image_bytes(noise.convert("RGB"), "TIFF", compression="jpeg"),
        image_bytes(deep, "TIFF", compression="tiff_adobe_deflate"),
        image_bytes(noise.convert("P"), "PNG"),
        image_bytes(noise.convert("CMYK"), "JPEG"),
        *(image_bytes(noise, kind) for kind in ("PNG", "JPEG", "JPEG2000", "WEBP", "BMP", "GIF", "PPM")),
    ]


def _archives(scan: bytes) -> list[bytes]:
    scans = {f"{number}.png": scan for number in range(3)}
    tiff = tiff_bytes(picture(30, 30), picture(20, 20))
    return [
        zip_bytes({**scans, "4.tif": tiff, "mets.xml": b"<?xml version='1.0'?>"}),
        zip_bytes(scans, zipfile.ZIP_STORED),
    ]


def found_seeds(folder: Path) -> list[bytes]:
    """The smaller files of a folder, in the order of their names."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix not in (".txt", ".md", ".jsonl")]
    return [path.read_bytes() for path in files if 0 < path.stat().st_size <= _LONGEST_SEED_BYTES]
