from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from PIL import Image

from pipeline.adapters.documents.inspection import BoundedInspector
from pipeline.adapters.documents.opener import FileOpener
from pipeline.domain.document import PageClass
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.ports.documents import DocumentInspector
from tests.adapters.documents.builders import (
    Page,
    declared_image,
    image_at,
    image_bytes,
    limits,
    pdf_file,
    picture,
    swollen,
    text,
)

MEGABYTE = 1024**2


def inspector(*, seconds: float = 60, megabytes: int = 2048, **changes: float) -> DocumentInspector:
    return BoundedInspector(
        limits(**changes), timeout=timedelta(seconds=seconds), max_memory_bytes=megabytes * MEGABYTE
    )


def refusal_of(path: Path, looking: DocumentInspector) -> Rejected:
    with pytest.raises(Rejected) as refusal:
        looking.inspect(path)
    return refusal.value


def test_a_child_finds_what_the_opener_finds(tmp_path: Path) -> None:
    scan = Page(image_at("scan", 0, 0, 612, 792), images={"scan": picture(1275, 1650)})
    path = pdf_file(tmp_path, Page(text("One")), scan, Page())
    found = inspector().inspect(path)
    with FileOpener(limits()).open(path) as document:
        assert found.facts == tuple(document.facts(number) for number in (1, 2, 3))
    assert (found.media_type, found.page_count, found.flags) == ("application/pdf", 3, ())


def test_what_had_to_be_done_is_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "animation"
    frames = [Image.new("L", (20, 20), shade) for shade in (0, 255)]
    path.write_bytes(image_bytes(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert [flag.name for flag in inspector().inspect(path).flags] == ["first_frame_only"]


def test_a_refusal_keeps_its_code_and_its_words(tmp_path: Path) -> None:
    path = tmp_path / "sheet"
    path.write_bytes(b"PK\x03\x04" + b"\0" * 26 + b"[Content_Types].xml")
    refusal = refusal_of(path, inspector())
    assert refusal.code is ErrorCode.UNSUPPORTED_TYPE
    assert "Office" in refusal.message


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (Page(box=(0, 0, 600, 90_000)), ErrorCode.PAGE_TOO_LARGE),
        (
            Page(image_at("scan", 0, 0, 612, 792), images={"scan": declared_image(90_000, 90_000)}),
            ErrorCode.DECOMPRESSION_BOMB,
        ),
    ],
)
def test_a_document_without_a_readable_page_is_refused_for_its_pages_reason(
    tmp_path: Path, page: Page, code: ErrorCode
) -> None:
    assert refusal_of(pdf_file(tmp_path, page, page), inspector()).code is code


def test_a_picture_that_can_not_be_decoded_is_a_damaged_document(tmp_path: Path) -> None:
    path = tmp_path / "cut.jpg"
    path.write_bytes(image_bytes(picture(600, 600), "JPEG")[:2500])
    assert refusal_of(path, inspector()).code is ErrorCode.DAMAGED


def test_a_page_that_kills_its_reader_costs_that_page_alone(tmp_path: Path) -> None:
    path = pdf_file(tmp_path, Page(text("Before")), Page(swollen(600 * MEGABYTE)), Page(text("After")))
    found = inspector(megabytes=400).inspect(path)
    assert [page.page_class for page in found.facts] == [
        PageClass.TEXT_LAYER,
        PageClass.UNREADABLE,
        PageClass.TEXT_LAYER,
    ]


def test_a_picture_that_needs_more_memory_than_there_is_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(image_bytes(Image.new("L", (12_000, 12_000), 255), "PNG", compress_level=1))
    refusal = refusal_of(path, inspector(megabytes=150))
    assert refusal.code is ErrorCode.DAMAGED
    assert "memory" in refusal.message


def test_a_document_that_takes_too_long_is_damaged_and_nothing_goes_on_running(tmp_path: Path) -> None:
    path = pdf_file(tmp_path, Page(swollen(500 * MEGABYTE)))
    before = set(psutil.Process().children())
    refusal = refusal_of(path, inspector(seconds=0.4, megabytes=4096))
    assert refusal.code is ErrorCode.DAMAGED
    assert "too long" in refusal.message
    assert set(psutil.Process().children()) <= before
