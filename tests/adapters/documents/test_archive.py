"""A ZIP of pictures is one document, in the order in which people would lay its files; it is unpacked page by page."""

import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from PIL import Image

from pipeline.adapters.documents.inspection import BoundedInspector
from pipeline.adapters.documents.opener import FileOpener
from pipeline.domain.document import PageClass
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Rejected
from pipeline.domain.password import Password
from tests.adapters.documents.builders import Page, image_bytes, limits, pdf_bytes, text
from tests.adapters.documents.zips import encrypted, png, tiff, with_method, zip_bytes, zip_file

BESIDE = {"mets.xml": b"<?xml version='1.0'?><mets/>", "checksums.md5": b"abc  1.png\n", "1.txt": b"what stands on it"}


def widths(path: Path, **changes: float) -> list[int]:
    """The widths of the pages in pixels, which tell them apart."""
    with FileOpener(limits(dpi=72, **changes)).open(path) as document:
        return [document.render(number).width_px for number in range(1, document.page_count + 1)]


def refusal_of(path: Path, password: Password | None = None, **changes: float) -> Rejected:
    with pytest.raises(Rejected) as refusal, FileOpener(limits(**changes)).open(path, password=password):
        pass
    return refusal.value


def test_files_are_pages_in_the_natural_order_of_their_names(tmp_path: Path) -> None:
    names = {"box 2/1.png": 103, "box 10/1.png": 104, "box 2/p10.png": 102, "box 2/p9.png": 101}
    order = ["box 2/1.png", "box 2/p9.png", "box 2/p10.png", "box 10/1.png"]
    path = zip_file(tmp_path, {name: png(width) for name, width in names.items()})
    assert widths(path) == [names[name] for name in order]


def unmarked(name: bytes) -> bytes:
    """An archive with a picture whose name is not said to be UTF-8, as old programs write it."""
    content = zip_bytes({"x" * len(name): png()})
    return content.replace(b"x" * len(name), name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("box 17/0001.png", "box 17/0001.png"),
        ("../../etc/passwd", "etc/passwd"),
        ("/srv/./scans//1.png", "srv/scans/1.png"),
        ("one\nline\x1b[31m.png", "one line[31m.png"),
        ("\u202egnp.exe\u2066.png", "gnp.exe.png"),
        ("档案 1911/第二頁.png", "档案 1911/第二頁.png"),
        ("😀" * 10_000 + ".png", "..." + "😀" * 193 + ".png"),
        ("box\\..\\etc\\passwd.png", "box/etc/passwd.png"),
        ("box 17\\0001.png", "box 17/0001.png"),
        ("..", None),
    ],
)
def test_a_page_names_its_file_as_one_line_that_leads_nowhere(tmp_path: Path, name: str, shown: str | None) -> None:
    path = zip_file(tmp_path, {name: png()})
    found = BoundedInspector(limits(), timeout=timedelta(seconds=30), max_memory_bytes=2 * 1024**3).inspect(path)
    assert [page.source_file for page in found.facts] == [shown]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("档案/第一页.png".encode("gb2312"), "档案/第一页.png"),
        ("档案/第一頁.png".encode(), "档案/第一頁.png"),
        ("檔案/第一頁.png".encode("gb18030"), "檔案/第一頁.png"),
        ("朱镕基/㐀㐁.png".encode("gb18030"), "朱镕基/㐀㐁.png"),
        ("Größe.png".encode("cp437"), "Größe.png"),
        ("élève à Liège, n° 3.png".encode("cp437"), "élève à Liège, n° 3.png"),
        ("año, señor.png".encode("cp437"), "año, señor.png"),
        ("Müller, Straße.png".encode("cp437"), "Müller, Straße.png"),
        (b"plain.png", "plain.png"),
    ],
)
def test_names_that_say_not_how_they_are_written_are_read_as_they_were_meant(
    tmp_path: Path, written: bytes, meant: str
) -> None:
    path = tmp_path / "document"
    path.write_bytes(unmarked(written))
    with FileOpener(limits()).open(path) as document:
        assert document.facts(1).source_file == meant


def test_a_name_of_greatest_length_that_is_hardly_chinese_is_told_as_soon(tmp_path: Path) -> None:
    path = tmp_path / "document"
    path.write_bytes(unmarked("檔案".encode("gb18030") * 16_000 + "ñ.png".encode("cp437")))
    found = BoundedInspector(limits(), timeout=timedelta(seconds=30), max_memory_bytes=2 * 1024**3).inspect(path)
    assert [(page.source_file or "")[-5:] for page in found.facts] == ["ñ.png"]


def test_each_page_of_a_file_names_it_and_so_does_one_that_is_lost(tmp_path: Path) -> None:
    files = {"a.png": png(), "b.tif": tiff(30, 40), "c.png": b"no picture", "d.png": png()[:60]}
    with FileOpener(limits()).open(zip_file(tmp_path, files)) as document:
        found = [document.facts(number) for number in range(1, document.page_count + 1)]
    assert [page.source_file for page in found] == ["a.png", "b.tif", "b.tif", "c.png", "d.png"]
    assert found[3].page_class is PageClass.UNREADABLE


def test_every_kind_of_picture_is_read_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    kinds = ("PNG", "JPEG", "TIFF", "JPEG2000", "WEBP", "BMP", "GIF", "PPM")
    files = {f"{n}": image_bytes(Image.new("RGB", (30 + n, 20), "white"), kind) for n, kind in enumerate(kinds)}
    with FileOpener(limits()).open(zip_file(tmp_path, files)) as document:
        assert (document.media_type, document.page_count, document.flags) == ("application/zip", len(kinds), ())
        found = [document.facts(number) for number in range(1, len(kinds) + 1)]
    assert {page.page_class for page in found} == {PageClass.SCAN}
    assert [page.number for page in found] == list(range(1, len(kinds) + 1))


def test_a_page_is_what_its_file_by_itself_would_be(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.write_bytes(png(600, 400, dpi=150))
    packed = zip_file(tmp_path, {"a.png": png(), "b.png": alone.read_bytes()})
    opener = FileOpener(limits())
    with opener.open(alone) as one, opener.open(packed) as many:
        assert (many.render(2).pixels == one.render(1).pixels).all()
        mine, its = many.facts(2), one.facts(1)
    assert (mine.width_pt, mine.height_pt, mine.dpi) == (its.width_pt, its.height_pt, its.dpi)


def test_each_page_of_a_tiff_is_a_page(tmp_path: Path) -> None:
    path = zip_file(tmp_path, {"1.png": png(50), "2.tif": tiff(60, 61, 62), "3.png": png(70)})
    assert widths(path) == [50, 60, 61, 62, 70]
    with FileOpener(limits(dpi=72)).open(path) as document:
        assert [document.render(number).width_px for number in (4, 1, 3, 2, 5)] == [62, 50, 61, 60, 70]
        assert document.facts(3).width_pt == 61


def test_what_lies_beside_the_pictures_is_passed_over_and_a_flag_says_so(tmp_path: Path) -> None:
    with FileOpener(limits()).open(zip_file(tmp_path, {"1.png": png(), **BESIDE})) as document:
        assert document.page_count == 1
        [flag] = document.flags
    assert (flag.name, flag.score) == ("files_passed_over", 0.75)


def test_what_systems_leave_behind_is_not_worth_a_flag(tmp_path: Path) -> None:
    left = ("__MACOSX/._1.png", ".DS_Store", "scans/Thumbs.db", "desktop.ini", "scans/")
    with FileOpener(limits()).open(zip_file(tmp_path, {"scans/1.png": png(), **dict.fromkeys(left, b"")})) as document:
        assert (document.page_count, document.flags) == (1, ())


def test_an_animation_among_them_is_told(tmp_path: Path) -> None:
    frames = [Image.new("L", (20, 20), shade) for shade in (0, 255)]
    animation = image_bytes(frames[0], "GIF", save_all=True, append_images=frames[1:])
    with FileOpener(limits()).open(zip_file(tmp_path, {"1.png": png(), "2.gif": animation})) as document:
        assert (document.page_count, [flag.name for flag in document.flags]) == (2, ["first_frame_only"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (pdf_bytes(Page(text("Another document"))), "document of its own"),
        (zip_bytes({"1.png": b""}), "archive"),
        (b"Rar!\x1a\x07\x00", "archive"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Office"),
        (b"{\\rtf1 Dear Sir}", "RTF"),
    ],
)
def test_what_may_hold_pages_of_its_own_is_not_passed_over(tmp_path: Path, content: bytes, said: str) -> None:
    refusal = refusal_of(zip_file(tmp_path, {"1.png": png(), "letters/2.bin": content}))
    assert refusal.code is ErrorCode.UNSUPPORTED_TYPE
    assert said in refusal.message
    assert "letters/2.bin" in refusal.message


@pytest.mark.parametrize(
    ("name", "said"), [("[Content_Types].xml", "Office"), ("OFD.xml", "OFD"), ("mimetype", "EPUB"), ("OFD.xml", "PDF")]
)
def test_a_zip_that_is_a_document_of_another_kind_is_refused_by_name(tmp_path: Path, name: str, said: str) -> None:
    refusal = refusal_of(zip_file(tmp_path, {"media/1.png": png(), name: b"<?xml version='1.0'?>"}))
    assert refusal.code is ErrorCode.UNSUPPORTED_TYPE
    assert said in refusal.message


@pytest.mark.parametrize(
    ("files", "code"),
    [({}, ErrorCode.ZERO_PAGES), ({"scans/": b""}, ErrorCode.ZERO_PAGES), (BESIDE, ErrorCode.NOT_A_DOCUMENT)],
)
def test_without_pictures_it_is_no_document(tmp_path: Path, files: dict[str, bytes], code: ErrorCode) -> None:
    assert refusal_of(zip_file(tmp_path, files)).code is code


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n"])
def test_a_file_that_should_be_a_picture_and_is_none_is_a_page_that_was_lost(tmp_path: Path, content: bytes) -> None:
    path = zip_file(tmp_path, {"1.png": png(), "2.png": content, "3.png": png()})
    with FileOpener(limits()).open(path) as document:
        found = [document.facts(number) for number in (1, 2, 3)]
        with pytest.raises(RecognitionFailed, match=r"2\.png") as failure:
            document.render(2)
    assert [page.page_class for page in found] == [PageClass.SCAN, PageClass.UNREADABLE, PageClass.SCAN]
    assert failure.value.code is found[1].error_code is ErrorCode.PAGE_DAMAGED


def test_damage_within_a_picture_costs_that_page_alone(tmp_path: Path) -> None:
    content = bytearray(zip_bytes([(f"{n}.bmp", image_bytes(Image.new("L", (40, 40)), "BMP")) for n in range(3)], 0))
    content[content.index(b"1.bmp") + 1400] ^= 0xFF
    path = tmp_path / "damaged.zip"
    path.write_bytes(content)
    with FileOpener(limits()).open(path) as document:
        assert [document.render(number).number for number in (1, 3)] == [1, 3]
        with pytest.raises(RecognitionFailed, match=r"1\.bmp.*CRC"):
            document.render(2)


def test_a_picture_that_is_too_large_costs_that_page_alone(tmp_path: Path) -> None:
    path = zip_file(tmp_path, {"1.png": png(), "2.png": png(400, 300)})
    with FileOpener(limits(max_image_pixels=100_000)).open(path) as document:
        assert document.facts(2).error_code == ErrorCode.DECOMPRESSION_BOMB
        assert document.render(1).number == 1


def test_opening_a_long_one_decodes_no_picture(tmp_path: Path) -> None:
    """What is there can't be decoded, so that whoever tries is found out."""
    headers = image_bytes(Image.effect_noise((200, 100), 60), "JPEG")[:700]
    path = zip_file(tmp_path, {f"{n}.jpg": headers for n in range(5000)}, zipfile.ZIP_STORED)
    with FileOpener(limits(max_pages=5000)).open(path) as document:
        assert document.page_count == 5000
        assert document.facts(4321).page_class is PageClass.SCAN
        with pytest.raises(RecognitionFailed, match="truncated"):
            document.render(4321)


@pytest.mark.parametrize("name", ["../../outside.png", "/etc/passwd.png", "C:\\scans\\1.png", "a\nb.png", "x" * 300])
def test_names_are_no_paths(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    path = zip_file(inside, {name: png(55), "z.png": b""})
    before = sorted(tmp_path.parent.rglob("*.png"))
    assert refusal_of_page(path, 2)
    with FileOpener(limits(dpi=72)).open(path) as document:
        assert document.render(1).width_px == 55
    assert sorted(tmp_path.parent.rglob("*.png")) == before


def refusal_of_page(path: Path, number: int) -> str:
    with FileOpener(limits()).open(path) as document, pytest.raises(RecognitionFailed) as failure:
        document.render(number)
    return failure.value.message


@pytest.mark.parametrize(
    ("files", "changes", "code"),
    [
        ({f"{n}.png": png() for n in range(4)}, {"max_pages": 3}, ErrorCode.TOO_MANY_PAGES),
        ({"1.tif": tiff(20, 21), "2.tif": tiff(20, 21)}, {"max_pages": 3}, ErrorCode.TOO_MANY_PAGES),
        ({"1.png": png(), **{f"{n}.txt": b"" for n in range(12)}}, {"max_pages": 3}, ErrorCode.TOO_MANY_PAGES),
        ({"1.png": png(), "2.txt": bytes(100_000)}, {"max_unpacked_bytes": 90_000}, ErrorCode.DECOMPRESSION_BOMB),
        ({"1.png": png(), "2.png": bytes(80 * 1024**2)}, {}, ErrorCode.DECOMPRESSION_BOMB),
    ],
)
def test_what_is_over_a_bound_is_refused(
    tmp_path: Path, files: dict[str, bytes], changes: dict[str, float], code: ErrorCode
) -> None:
    assert refusal_of(zip_file(tmp_path, files), **changes).code is code


def test_an_encrypted_one_opens_with_its_password(tmp_path: Path) -> None:
    path = tmp_path / "encrypted.zip"
    path.write_bytes(encrypted(zip_bytes({"1.png": png(77)}, zipfile.ZIP_STORED), b"open sesame"))
    assert refusal_of(path).code is ErrorCode.PASSWORD_REQUIRED
    assert refusal_of(path, Password("abracadabra")).code is ErrorCode.PASSWORD_WRONG
    with FileOpener(limits(dpi=72)).open(path, password=Password("open sesame")) as document:
        assert document.render(1).width_px == 77


@pytest.mark.parametrize(("method", "said"), [(99, "AES"), (9, "Deflate"), (14, "Deflate")])
def test_what_can_not_be_unpacked_here_is_refused_with_what_to_do(tmp_path: Path, method: int, said: str) -> None:
    path = tmp_path / "unusual.zip"
    path.write_bytes(with_method(zip_bytes({"1.png": png()}), method))
    refusal = refusal_of(path, Password("open sesame"))
    assert refusal.code is ErrorCode.UNSUPPORTED_TYPE
    assert said in refusal.message


@pytest.mark.parametrize("keep", [30, 100, -10])
def test_one_that_is_cut_short_is_damaged(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.zip"
    path.write_bytes(zip_bytes({"1.png": png(), "2.png": png()})[:keep])
    assert refusal_of(path).code is ErrorCode.DAMAGED


def test_it_is_inspected_in_a_child_as_everything_is(tmp_path: Path) -> None:
    inspector = BoundedInspector(limits(), timeout=timedelta(seconds=60), max_memory_bytes=2 * 1024**3)
    found = inspector.inspect(zip_file(tmp_path, {"1.png": png(), "2.tif": tiff(30, 40), **BESIDE}))
    assert (found.media_type, found.page_count) == ("application/zip", 3)
    assert [flag.name for flag in found.flags] == ["files_passed_over"]
