from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pikepdf
import pypdfium2
import pytest
from PIL import Image

from pipeline.adapters.documents.opener import FileOpener
from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Rejected
from tests.adapters.documents.builders import (
    BAD_OCR,
    LETTER,
    LONG_TEXT,
    Page,
    darkest_box,
    declared_image,
    drawn,
    filled_field,
    image_at,
    limits,
    link,
    mapped_font,
    pdf_bytes,
    pdf_file,
    picture,
    text,
)

FULL_PAGE = image_at("scan", 0, 0, 612, 792)
SQUARE = b"0 0 0 rg 100 600 50 30 re f\n"


def facts_of(path: Path, number: int = 1, **changes: float) -> PageFacts:
    with FileOpener(limits(**changes)).open(path) as document:
        return document.facts(number)


def class_of(folder: Path, page: Page) -> PageClass:
    return facts_of(pdf_file(folder, page)).page_class


def refusal_of(path: Path, **changes: float) -> Rejected:
    with pytest.raises(Rejected) as refusal, FileOpener(limits(**changes)).open(path):
        pass
    return refusal.value


class TestOpening:
    def test_a_file_is_opened_whatever_its_name(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, Page(), Page()).rename(tmp_path / "photo.jpg")
        with FileOpener(limits()).open(path) as document:
            assert (document.media_type, document.page_count, document.flags) == ("application/pdf", 2, ())

    def test_a_password_is_asked_for(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, Page(), encryption=pikepdf.Encryption(user="open", owner="edit"))
        assert refusal_of(path).code is ErrorCode.PASSWORD_REQUIRED

    def test_a_password_for_changes_alone_is_no_obstacle(self, tmp_path: Path) -> None:
        secured = pikepdf.Encryption(user="", owner="edit", allow=pikepdf.Permissions(extract=False))
        path = pdf_file(tmp_path, Page(text("Open to all")), encryption=secured)
        with FileOpener(limits()).open(path) as document:
            assert document.text_layer(1).blocks[0].text == "Open to all"

    def test_no_pages_are_refused(self, tmp_path: Path) -> None:
        assert refusal_of(pdf_file(tmp_path)).code is ErrorCode.ZERO_PAGES

    def test_more_pages_than_allowed_are_refused(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, Page(), Page(), Page())
        assert refusal_of(path, max_pages=2).code is ErrorCode.TOO_MANY_PAGES

    def test_what_only_begins_like_a_pdf_is_damaged(self, tmp_path: Path) -> None:
        path = tmp_path / "broken.pdf"
        path.write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 8)
        assert refusal_of(path).code is ErrorCode.DAMAGED

    def test_a_file_cut_short_is_repaired_and_pages_without_their_content_are_not_called_blank(
        self, tmp_path: Path
    ) -> None:
        noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (200, 200), np.uint8))
        pages = [Page(text(f"Page {n}") + image_at("i", 300, 300, 100, 100), images={"i": noise}) for n in range(1, 7)]
        whole = pdf_bytes(*pages, object_stream_mode=pikepdf.ObjectStreamMode.disable)
        path = tmp_path / "half.pdf"
        path.write_bytes(whole[: len(whole) // 2])
        with FileOpener(limits()).open(path) as document:
            classes = [document.facts(number).page_class for number in range(1, document.page_count + 1)]
            assert [flag.name for flag in document.flags] == ["repaired"]
            assert document.text_layer(1).blocks[0].text == "Page 1"
        assert len(classes) == 6
        assert classes[-1] is PageClass.UNREADABLE

    def test_pages_that_a_repair_could_not_save_are_counted(self, tmp_path: Path) -> None:
        pages = [Page(text(f"Page {number}")) for number in (1, 2, 3, 4)]
        whole = pdf_bytes(*pages, object_stream_mode=pikepdf.ObjectStreamMode.disable)
        path = tmp_path / "half.pdf"
        path.write_bytes(whole[: whole.index(b"6 0 obj")] + b"stream")
        with FileOpener(limits()).open(path) as document:
            classes = [document.facts(number).page_class for number in range(1, document.page_count + 1)]
            flags = {flag.name: flag.score for flag in document.flags}
        assert classes == [PageClass.UNREADABLE] * 4
        assert flags == {"repaired": None, "pages_lost": 0.25}

    def test_a_repair_leaves_no_file_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(scratch))
        path = tmp_path / "half.pdf"
        whole = pdf_bytes(Page(text("Kept")), object_stream_mode=pikepdf.ObjectStreamMode.disable)
        path.write_bytes(whole[: whole.index(b"xref")].replace(b"/Type /Catalog", b"/Type /Catalog "))
        with FileOpener(limits()).open(path) as document:
            assert document.page_count == 1
        assert list(scratch.iterdir()) == []

    def test_scripts_can_not_run(self) -> None:
        assert not set(pypdfium2.PDFIUM_INFO.flags) & {"V8", "XFA"}


class TestSize:
    def test_a_turned_page_is_as_wide_as_it_looks(self, tmp_path: Path) -> None:
        facts = facts_of(pdf_file(tmp_path, Page(text("Sideways"), rotate=90)))
        assert (facts.width_pt, facts.height_pt) == (792, 612)

    def test_a_page_over_the_limit_is_unreadable_and_the_next_is_not(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, Page(box=(0, 0, 600, 20_000)), Page(text("Small")))
        assert facts_of(path, 1).error_code == ErrorCode.PAGE_TOO_LARGE
        assert facts_of(path, 2).page_class is PageClass.TEXT_LAYER

    def test_a_crop_box_beside_the_page_is_ignored(self, tmp_path: Path) -> None:
        facts = facts_of(pdf_file(tmp_path, Page(text("Still there"), crop=(700, 800, 900, 1000))))
        assert (facts.width_pt, facts.height_pt, facts.page_class) == (612, 792, PageClass.TEXT_LAYER)

    def test_a_large_page_is_rendered_within_the_pixels_allowed(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, Page(text("Poster"), box=(0, 0, 3000, 4000)))
        with FileOpener(limits(max_render_pixels=1_000_000)).open(path) as document:
            for image in (document.render(1), document.render(1, dpi=600)):
                assert 950_000 < image.width_px * image.height_px <= 1_000_000
            assert document.facts(1).dpi == document.render(1).dpi == document.text_layer(1).dpi

    def test_a_scan_is_rendered_at_its_own_resolution(self, tmp_path: Path) -> None:
        scan = picture(1275, 1650)
        with FileOpener(limits()).open(pdf_file(tmp_path, Page(FULL_PAGE, images={"scan": scan}))) as document:
            assert document.facts(1).dpi == pytest.approx(150)
            assert np.array_equal(document.render(1).pixels[..., 0], np.asarray(scan))

    @pytest.mark.parametrize(("width", "dpi"), [(5100, 300), (2550, 300), (850, 100), (612, 144)])
    def test_a_fine_scan_is_reduced_and_a_coarse_one_enlarged_with_measure(
        self, tmp_path: Path, width: int, dpi: float
    ) -> None:
        scan = Image.new("1", (width, width * 792 // 612), 1)
        assert facts_of(pdf_file(tmp_path, Page(FULL_PAGE, images={"scan": scan}))).dpi == pytest.approx(dpi, rel=0.01)

    def test_a_scan_in_strips_has_the_resolution_of_the_strips(self, tmp_path: Path) -> None:
        strips = b"".join(image_at("scan", 0, y, 612, 99) for y in range(0, 792, 99))
        facts = facts_of(pdf_file(tmp_path, Page(strips, images={"scan": picture(1700, 275)})))
        assert (facts.page_class, facts.dpi) == (PageClass.SCAN, pytest.approx(200))

    def test_an_image_that_declares_too_much_is_not_decoded(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, Page(FULL_PAGE, images={"scan": declared_image(90_000, 90_000)}))
        assert facts_of(path).error_code == ErrorCode.DECOMPRESSION_BOMB
        with FileOpener(limits()).open(path) as document, pytest.raises(RecognitionFailed):
            document.render(1)

    def test_a_bilevel_image_may_have_more_pixels_than_one_in_colour(self, tmp_path: Path) -> None:
        bilevel, deep = declared_image(14_000, 14_000, bits=1), declared_image(14_000, 14_000, bits=16)
        path = pdf_file(tmp_path, Page(FULL_PAGE, images={"scan": bilevel}), Page(FULL_PAGE, images={"scan": deep}))
        assert facts_of(path, 1).page_class is PageClass.SCAN
        assert facts_of(path, 2).page_class is PageClass.UNREADABLE


class TestClass:
    def test_a_page_with_nothing_on_it_is_blank(self, tmp_path: Path) -> None:
        assert class_of(tmp_path, Page()) is PageClass.BLANK

    def test_a_link_leaves_a_page_blank(self, tmp_path: Path) -> None:
        assert class_of(tmp_path, Page(annotations=[link])) is PageClass.BLANK

    def test_invisible_text_over_nothing_leaves_a_page_blank(self, tmp_path: Path) -> None:
        assert class_of(tmp_path, Page(text(*LONG_TEXT, mode=3))) is PageClass.BLANK

    def test_drawn_lines_have_to_be_looked_at(self, tmp_path: Path) -> None:
        assert class_of(tmp_path, Page(SQUARE)) is PageClass.SCAN

    @pytest.mark.parametrize("lines", [("Title",), LONG_TEXT])
    def test_text_is_trusted_however_short(self, tmp_path: Path, lines: tuple[str, ...]) -> None:
        assert class_of(tmp_path, Page(text(*lines))) is PageClass.TEXT_LAYER

    def test_a_picture_of_a_page_is_a_scan(self, tmp_path: Path) -> None:
        assert class_of(tmp_path, Page(FULL_PAGE, images={"scan": picture(850, 1100)})) is PageClass.SCAN

    def test_a_page_number_over_a_scan_leaves_it_a_scan(self, tmp_path: Path) -> None:
        page = Page(FULL_PAGE + text("ARCHIVE 000123", y=20), images={"scan": picture(850, 1100)})
        assert class_of(tmp_path, page) is PageClass.SCAN

    def test_characters_that_stand_for_nothing_are_recognised_anew(self, tmp_path: Path) -> None:
        garbled = b"BT /G 12 Tf 72 700 Td (ABCABCABC) Tj ET"
        page = Page(garbled, fonts={"G": mapped_font("\ue001", "\ue002", "\ufffd")})
        assert class_of(tmp_path, page) is PageClass.SCAN

    def test_a_symbol_font_for_bullets_is_no_garbling(self, tmp_path: Path) -> None:
        bullets = b"".join(b"BT /G 12 Tf 60 %d Td (A) Tj ET\n" % (700 - 14 * row) for row in range(3))
        page = Page(bullets + text(*LONG_TEXT, x=100), fonts={"G": mapped_font("\uf0b7")})
        path = pdf_file(tmp_path, page)
        assert facts_of(path).page_class is PageClass.TEXT_LAYER
        with FileOpener(limits()).open(path) as document:
            assert "\uf0b7" not in document.text_layer(1).blocks[0].text

    @pytest.mark.parametrize(("lines", "expected"), [(LONG_TEXT, PageClass.TEXT_LAYER), (BAD_OCR, PageClass.SCAN)])
    def test_an_older_recognition_is_kept_if_it_is_good(
        self, tmp_path: Path, lines: tuple[str, ...], expected: PageClass
    ) -> None:
        page = Page(FULL_PAGE + text(*lines, mode=3), images={"scan": picture(850, 1100)})
        found = facts_of(pdf_file(tmp_path, page))
        assert found.page_class is expected
        assert found.has_poor_layer is (lines is BAD_OCR)

    def test_text_without_meaning_is_no_poor_layer(self, tmp_path: Path) -> None:
        garbled = b"BT 3 Tr /G 12 Tf 72 700 Td (" + b"ABC" * 30 + b") Tj ET"
        fonts = {"G": mapped_font("\ue001", "\ue002", "\ufffd")}
        page = Page(FULL_PAGE + garbled, fonts=fonts, images={"scan": picture(850, 1100)})
        found = facts_of(pdf_file(tmp_path, page))
        assert (found.page_class, found.has_poor_layer) == (PageClass.SCAN, False)

    def test_text_beneath_the_picture_is_judged_the_same(self, tmp_path: Path) -> None:
        page = Page(text(*BAD_OCR) + FULL_PAGE, images={"scan": picture(850, 1100)})
        assert class_of(tmp_path, page) is PageClass.SCAN

    def test_a_picture_with_room_for_more_text_is_read_too(self, tmp_path: Path) -> None:
        page = Page(text(*LONG_TEXT) + image_at("chart", 72, 200, 400, 300), images={"chart": picture(800, 600)})
        assert class_of(tmp_path, page) is PageClass.MIXED

    @pytest.mark.parametrize("pixels", [(200, 100), (4, 2)])
    def test_a_logo_is_not(self, tmp_path: Path, pixels: tuple[int, int]) -> None:
        page = Page(text(*LONG_TEXT) + image_at("logo", 450, 720, 80, 40), images={"logo": picture(*pixels)})
        assert class_of(tmp_path, page) is PageClass.TEXT_LAYER

    def test_a_plain_ground_of_a_few_pixels_is_not(self, tmp_path: Path) -> None:
        page = Page(FULL_PAGE + text(*LONG_TEXT), images={"scan": picture(8, 8)})
        assert class_of(tmp_path, page) is PageClass.TEXT_LAYER

    def test_a_stamp_is_read_beside_the_text(self, tmp_path: Path) -> None:
        page = Page(text(*LONG_TEXT), annotations=[drawn("Stamp", b"BT /F0 20 Tf 5 10 Td (RECEIVED) Tj ET")])
        assert class_of(tmp_path, page) is PageClass.MIXED

    def test_a_hidden_stamp_is_not(self, tmp_path: Path) -> None:
        page = Page(text(*LONG_TEXT), annotations=[drawn("Stamp", SQUARE, flags=2)])
        assert class_of(tmp_path, page) is PageClass.TEXT_LAYER

    def test_a_missing_page_object_is_unreadable_and_its_neighbour_is_not(self, tmp_path: Path) -> None:
        whole = pdf_bytes(Page(text("First")), Page(), object_stream_mode=pikepdf.ObjectStreamMode.disable)
        with pikepdf.open(pdf_file(tmp_path, Page())) as pdf:
            assert len(pdf.pages) == 1
        path = tmp_path / "loop.pdf"
        kids = whole[whole.index(b"/Kids") : whole.index(b"]", whole.index(b"/Kids")) + 1]
        second = kids.split()[-4]
        path.write_bytes(whole.replace(kids, kids.replace(b" " + second + b" 0 R", b" 99 0 R")))
        with FileOpener(limits()).open(path) as document:
            assert document.page_count == 2
            assert document.facts(1).page_class is PageClass.TEXT_LAYER
            assert document.facts(2).error_code == ErrorCode.PAGE_DAMAGED
            with pytest.raises(RecognitionFailed):
                document.render(2)


class TestRendering:
    def test_threads_may_each_have_a_document_open(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, *[Page(text(f"Page {number}", size=30)) for number in range(1, 9)])

        def read(number: int) -> tuple[str, int]:
            with FileOpener(limits(dpi=72)).open(path) as document:
                return document.text_layer(number).blocks[0].text, int(document.render(number).pixels.min())

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(read, range(1, 9))) == [(f"Page {number}", 0) for number in range(1, 9)]

    def test_pixels_are_red_green_blue_on_white_and_the_receivers_own(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, Page(b"1 0 0 rg 0 0 306 792 re f"))
        with FileOpener(limits(dpi=72)).open(path) as document:
            pixels = document.render(1).pixels
        assert pixels.shape == (792, 612, 3)
        assert pixels[400, 100].tolist() == [255, 0, 0]
        assert pixels[400, 500].tolist() == [255, 255, 255]
        assert pixels.flags["C_CONTIGUOUS"]
        assert pixels.flags["OWNDATA"]

    @pytest.mark.parametrize("rotate", [0, 90, 180, 270])
    def test_the_text_layer_lies_where_the_ink_is(self, tmp_path: Path, rotate: int) -> None:
        page = Page(text("Hxg", x=300, y=500, size=40), box=(50, 80, 662, 872), crop=(60, 100, 600, 800), rotate=rotate)
        with FileOpener(limits()).open(pdf_file(tmp_path, page)) as document:
            image, layer = document.render(1), document.text_layer(1)
        assert (layer.width_px, layer.height_px) == (image.width_px, image.height_px)
        left, top, right, bottom = darkest_box(image.pixels)
        (outer_left, outer_top), _, (outer_right, outer_bottom), _ = layer.blocks[0].lines[0].polygon
        assert outer_left - 2 <= left
        assert right <= outer_right + 2
        assert outer_top - 2 <= top
        assert bottom <= outer_bottom + 2
        assert (outer_right - outer_left) * (outer_bottom - outer_top) < 3 * (right - left) * (bottom - top)

    @pytest.mark.parametrize("dpi", [150, 203.5, 300])
    @pytest.mark.parametrize("rotate", [0, 90, 180, 270])
    @pytest.mark.parametrize("corner", [(0, 0), (-50.1, 1000.3)])
    def test_a_scan_is_drawn_pixel_by_pixel(
        self, tmp_path: Path, dpi: float, rotate: int, corner: tuple[float, float]
    ) -> None:
        """At its own resolution, whatever the digits of its size on the page; noise shows the least shift."""
        scan = Image.fromarray(np.random.default_rng(3).integers(0, 256, (467, 331), np.uint8))
        (left, bottom), width, height = corner, 331 * 72 / dpi, 467 * 72 / dpi
        page = Page(
            image_at("scan", left, bottom, width, height),
            box=(left, bottom, left + width, bottom + height),
            rotate=rotate,
            images={"scan": scan},
        )
        with FileOpener(limits()).open(pdf_file(tmp_path, page)) as document:
            size = document.facts(1).width_pt
            images = [document.render(1, dpi=dpi) for _ in range(2)]
            assert document.facts(1).width_pt == size
        for image in images:
            assert np.array_equal(image.pixels[:, :, 0], np.rot90(np.asarray(scan), -rotate // 90))

    def test_what_was_filled_into_a_form_is_drawn_and_read_behind_its_label(self, tmp_path: Path) -> None:
        page = Page(text("Name of ship:", *LONG_TEXT), annotations=[filled_field("Gudrun of Bergen")])
        with FileOpener(limits()).open(pdf_file(tmp_path, page)) as document:
            assert document.facts(1).page_class is PageClass.TEXT_LAYER
            lines = [line.text for block in document.text_layer(1).blocks for line in block.lines]
            image = document.render(1, dpi=72)
        assert lines[:3] == ["Name of ship:", "Gudrun of Bergen", LONG_TEXT[0]]
        assert image.pixels[62:102, 200:400].min() < 128

    def test_a_page_is_found_by_its_number_from_one(self, tmp_path: Path) -> None:
        path = pdf_file(tmp_path, Page(text("One")), Page(text("Two")))
        with FileOpener(limits()).open(path) as document:
            assert [document.text_layer(number).blocks[0].text for number in (1, 2)] == ["One", "Two"]
            for beyond in (0, 3):
                with pytest.raises(RecognitionFailed):
                    document.text_layer(beyond)

    def test_letter_paper_is_assumed_where_no_box_makes_sense(self, tmp_path: Path) -> None:
        facts = facts_of(pdf_file(tmp_path, Page(text("Anywhere"), box=(0, 0, 0, 0))))
        assert (0, 0, facts.width_pt, facts.height_pt) == LETTER


class TestPageCount:
    @staticmethod
    def lying(folder: Path, pages: int, count: int) -> Path:
        """A PDF whose page tree has another number of pages than it says; each page is wider than the last."""
        made = [Page(b"0 0 9 9 re f", box=(0, 0, 100 + number, 100)) for number in range(1, pages + 1)]
        whole = pdf_bytes(*made, object_stream_mode=pikepdf.ObjectStreamMode.disable)
        truth, lie = b"/Count %d" % pages, b"/Count %d" % count
        assert whole.count(truth) == 1
        path = folder / "lying.pdf"
        path.write_bytes(whole.replace(truth, lie.ljust(len(truth))))
        return path

    @pytest.mark.parametrize(("pages", "count", "disputed"), [(5, 3, 0.4), (5, 9, 4 / 9), (25, 3, 0.88)])
    def test_where_two_readers_disagree_all_pages_that_are_there_are_taken(
        self, tmp_path: Path, pages: int, count: int, disputed: float
    ) -> None:
        with FileOpener(limits()).open(self.lying(tmp_path, pages, count)) as document:
            assert document.page_count == pages
            found = [document.facts(number) for number in range(1, pages + 1)]
            [flag] = document.flags
        assert [page.width_pt for page in found] == [100 + number for number in range(1, pages + 1)]
        assert (flag.name, flag.score) == ("page_count_disputed", pytest.approx(disputed))

    def test_a_number_that_nobody_could_believe_costs_nothing(self, tmp_path: Path) -> None:
        path = self.lying(tmp_path, 1, 9)
        with FileOpener(limits(max_pages=3)).open(path) as document:
            assert document.page_count == 1

    def test_more_pages_than_allowed_are_found_out_behind_a_smaller_number(self, tmp_path: Path) -> None:
        with pytest.raises(Rejected) as refusal, FileOpener(limits(max_pages=4)).open(self.lying(tmp_path, 7, 3)):
            pass
        assert refusal.value.code is ErrorCode.TOO_MANY_PAGES

    def test_blank_pages_of_such_a_file_are_blank(self, tmp_path: Path) -> None:
        whole = pdf_bytes(Page(), Page(), Page(), object_stream_mode=pikepdf.ObjectStreamMode.disable)
        path = tmp_path / "blank.pdf"
        path.write_bytes(whole.replace(b"/Count 3", b"/Count 1"))
        with FileOpener(limits()).open(path) as document:
            assert [document.facts(number).page_class for number in (1, 2, 3)] == [PageClass.BLANK] * 3

    def test_opening_a_long_one_touches_no_page_and_facts_touch_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = pdf_file(tmp_path, *[Page(text(f"Page {number}")) for number in range(1, 1001)])
        touched = []
        load = pypdfium2.raw.FPDF_LoadPage
        monkeypatch.setattr(pypdfium2.raw, "FPDF_LoadPage", lambda *page: touched.append(page[1]) or load(*page))
        with FileOpener(limits(max_pages=1000)).open(path) as document:
            assert document.page_count == 1000
            assert touched == []
            document.facts(901)
            assert touched == [900]
            document.render(901, dpi=36)
            assert set(touched) == {900}
