"""Holds the readers to what the shared corpus says of its real documents; skipped where the corpus is not."""

import json
import re
import unicodedata
from datetime import timedelta
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from pipeline.adapters.documents.inspection import BoundedInspector
from pipeline.adapters.documents.opener import FileOpener
from pipeline.domain.document import PageClass
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.password import Password
from pipeline.ports.documents import DocumentLimits, Inspection
from pipeline.settings import LimitSettings

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
MANIFEST = CORPUS / "manifest.jsonl"
ENTRIES: list[dict[str, Any]] = list(map(json.loads, MANIFEST.read_text().splitlines())) if MANIFEST.exists() else []
FILES = [entry for entry in ENTRIES if entry.get("file")]
LEGIBLE = [entry for entry in FILES if entry["expect"].get("must_contain") and entry["expect"]["outcome"] != "rejected"]
PROTECTED = [entry for entry in FILES if entry["expect"].get("with_password")]
RECIPES = {entry["name"]: entry for entry in ENTRIES if not entry.get("file")}

pytestmark = pytest.mark.skipif(not ENTRIES, reason="no corpus beside the repository (../shared/corpus)")

CODES = {
    "damaged": {ErrorCode.DAMAGED},
    "not_a_pdf": {ErrorCode.NOT_A_DOCUMENT},
    "too_large": {ErrorCode.DECOMPRESSION_BOMB, ErrorCode.PAGE_TOO_LARGE},
    "page_too_large_or_damaged": {ErrorCode.PAGE_TOO_LARGE, ErrorCode.DAMAGED},
}
"""What the manifest's reasons are called here, where that differs."""

CLASSES = {
    "c_en_two_column_14p.pdf": [PageClass.TEXT_LAYER] * 14,
    "c_en_table_page.pdf": [PageClass.TEXT_LAYER],
    "c_zh_contents_page.pdf": [PageClass.TEXT_LAYER],
    "c_zh_mindmap_large_page.pdf": [PageClass.TEXT_LAYER],
    "d_invisible_text_layer.pdf": [PageClass.TEXT_LAYER],
    "d_mixed_image_text_6p.pdf": [PageClass.SCAN] * 3 + [PageClass.TEXT_LAYER] * 3,
    "d_mixed_on_one_page_2p.pdf": [PageClass.MIXED, PageClass.TEXT_LAYER],
    "e_three_sizes_3p.pdf": [PageClass.TEXT_LAYER] * 3,
    "e_zero_size_box_3p.pdf": [PageClass.TEXT_LAYER] * 3,
    "g_page_tree_loop.pdf": [PageClass.TEXT_LAYER, PageClass.UNREADABLE],
    "h_blank_no_contents.pdf": [PageClass.BLANK],
    "h_blank_with_metadata.pdf": [PageClass.BLANK],
}
MOSTLY_TEXT = {"c_en_book_352p.pdf": 4, "c_en_redpaper_18p.pdf": 4, "d_scan_with_ocr_layer_16p.pdf": 3}
"""How many pages may need more than their text layer: a cover, pages of pictures, a garbled column, bad recognition."""


def usual_limits() -> DocumentLimits:
    return LimitSettings().for_documents()


def outcome(path: Path) -> Inspection | Rejected:
    looking = BoundedInspector(usual_limits(), timeout=timedelta(seconds=120), max_memory_bytes=4 * 1024**3)
    try:
        return looking.inspect(path)
    except Rejected as refusal:
        return refusal


def comparable(text: str) -> str:
    """What the corpus says is not to be compared, folded: case, white space, hyphens, quotation marks."""
    text = re.sub(r"-\s*\n\s*", "", unicodedata.normalize("NFKC", text))
    return re.sub(r"[\s\-'\"“”‘’«»„‐–—]", "", text).casefold()


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: entry["file"])
def test_each_file_is_read_or_refused_as_it_should_be(entry: dict[str, Any]) -> None:
    expect = entry["expect"]
    found = outcome(CORPUS / entry["file"])
    fair = {expect["outcome"], *expect.get("also_acceptable", [])}
    if isinstance(found, Rejected):
        assert "rejected" in fair, found
        assert found.code in CODES.get(expect["reason"], {expect["reason"]})
        return
    classes = [page.page_class for page in found.facts]
    assert ("partial" if PageClass.UNREADABLE in classes else "ok") in fair
    assert expect.get("pages") in (None, found.page_count)
    assert classes == CLASSES.get(entry["file"], classes)
    if entry["file"] in MOSTLY_TEXT:
        recognised = [page for page in classes if page in (PageClass.SCAN, PageClass.MIXED)]
        assert len(recognised) <= MOSTLY_TEXT[entry["file"]]
    for number in expect.get("blank_pages") or []:
        assert classes[number - 1] in (PageClass.BLANK, PageClass.SCAN)


@pytest.mark.parametrize("entry", LEGIBLE, ids=lambda entry: entry["file"])
def test_pages_taken_from_their_text_layer_hold_what_a_person_sees(entry: dict[str, Any]) -> None:
    with FileOpener(usual_limits()).open(CORPUS / entry["file"]) as document:
        for page in entry["expect"]["must_contain"]:
            if document.facts(page["page"]).page_class is PageClass.TEXT_LAYER:
                text = "\n".join(block.text for block in document.text_layer(page["page"]).blocks)
                for string in page["strings"]:
                    assert comparable(string) in comparable(text)


@pytest.mark.parametrize("entry", PROTECTED, ids=lambda entry: entry["file"])
def test_a_protected_file_opens_with_its_password_and_no_other(entry: dict[str, Any]) -> None:
    path, expect = CORPUS / entry["file"], entry["expect"]
    opener = FileOpener(usual_limits())
    with opener.open(path, password=Password(expect["password"])) as document:
        for page in expect["with_password"]["must_contain"]:
            text = "\n".join(block.text for block in document.text_layer(page["page"]).blocks)
            assert all(comparable(string) in comparable(text) for string in page["strings"])
    with pytest.raises(Rejected) as refusal, opener.open(path, password=Password("another")):
        pass
    assert refusal.value.code is ErrorCode.PASSWORD_WRONG


def test_a_blank_page_between_others_is_known_without_rendering_it() -> None:
    found = outcome(CORPUS / "h_blank_pages_between_12p.pdf")
    assert isinstance(found, Inspection)
    blank = [page.number for page in found.facts if page.page_class is PageClass.BLANK]
    assert blank == [2, 7, 8, 10, 12]
    assert found.facts[3].page_class is PageClass.SCAN


def test_the_gigapixel_page_is_rendered_small(tmp_path: Path) -> None:
    with FileOpener(usual_limits()).open(CORPUS / "e_pixel_bomb_35000x35000.pdf") as document:
        page = document.render(1)
    assert page.width_px * page.height_px <= usual_limits().max_render_pixels
    assert page.pixels.min() < 64


def test_pixels_and_text_layer_have_the_same_size_on_turned_pages() -> None:
    for name in ("e_rotate_90_2p.pdf", "a_en_slerexe_rotation_mismatch.pdf", "e_rotated_skewed.pdf"):
        with FileOpener(usual_limits()).open(CORPUS / name) as document:
            for number in range(1, document.page_count + 1):
                image, layer = document.render(number), document.text_layer(number)
                assert (image.width_px, image.height_px, image.dpi) == (layer.width_px, layer.height_px, layer.dpi)


@pytest.mark.parametrize("name", ["truncated_pdf", "truncated_pdf_partly_recoverable"])
def test_a_pdf_cut_short_loses_no_page_silently(tmp_path: Path, name: str) -> None:
    recipe = RECIPES[name]["recipe"]
    path = tmp_path / "cut.pdf"
    path.write_bytes((CORPUS / recipe["file"]).read_bytes()[: recipe["keep_bytes"]])
    found = outcome(path)
    if isinstance(found, Rejected):
        assert found.code is ErrorCode.DAMAGED
    else:
        assert found.page_count == 18
        assert [page.page_class for page in found.facts].count(PageClass.UNREADABLE) >= 14
        assert [flag.name for flag in found.flags] == ["repaired", "pages_lost"]


def test_a_long_document_of_scans_is_looked_at_page_by_page(tmp_path: Path) -> None:
    path = tmp_path / "long.pdf"
    with pikepdf.new() as long, pikepdf.open(CORPUS / "b_scan_report_30p.pdf") as part:
        for _ in range(4):
            long.pages.extend(part.pages)
        long.save(path)
    found = outcome(path)
    assert isinstance(found, Inspection)
    assert {page.page_class for page in found.facts} == {PageClass.SCAN}
    assert len(found.facts) == 120
