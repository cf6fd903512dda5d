import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from pipeline.adapters.documents.opener import FileOpener
from pipeline.domain.document import PageClass, PageFacts
from pipeline.domain.errors import ErrorCode, RecognitionFailed, Rejected
from pipeline.ports.documents import PageImage
from tests.adapters.documents.builders import image_bytes, limits, picture, tiff_bytes

UPRIGHT = picture(120, 80)
TURNS = {
    1: (),
    2: (Image.Transpose.FLIP_LEFT_RIGHT,),
    3: (Image.Transpose.ROTATE_180,),
    4: (Image.Transpose.FLIP_TOP_BOTTOM,),
    5: (Image.Transpose.TRANSPOSE,),
    6: (Image.Transpose.ROTATE_90,),
    7: (Image.Transpose.TRANSVERSE,),
    8: (Image.Transpose.ROTATE_270,),
}
"""How an upright picture has to be turned so that an orientation makes it upright again."""


def written(folder: Path, content: bytes) -> Path:
    path = folder / "picture.bin"
    path.write_bytes(content)
    return path


def facts_of(folder: Path, content: bytes, **changes: float) -> PageFacts:
    with FileOpener(limits(**changes)).open(written(folder, content)) as document:
        return document.facts(1)


def rendered(folder: Path, content: bytes, number: int = 1, **changes: float) -> PageImage:
    with FileOpener(limits(**changes)).open(written(folder, content)) as document:
        return document.render(number)


def trouble_with(path: Path, **changes: float) -> str:
    """Why the only page can't be had, be it noticed when the file is opened or when the page is looked at."""
    try:
        with FileOpener(limits(**changes)).open(path) as document:
            code = document.facts(1).error_code
            with pytest.raises(RecognitionFailed) as failure:
                document.render(1)
    except Rejected as refusal:
        return refusal.code
    assert code == failure.value.code
    return failure.value.code


def grey(page: PageImage) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    assert np.ptp(page.pixels, axis=2).max() == 0
    return page.pixels[..., 0]


@pytest.mark.parametrize(
    ("image_format", "media_type"),
    [
        ("TIFF", "image/tiff"),
        ("PNG", "image/png"),
        ("BMP", "image/bmp"),
        ("GIF", "image/gif"),
        ("PPM", "image/x-portable-anymap"),
        ("WEBP", "image/webp"),
        ("JPEG2000", "image/jp2"),
        ("JPEG", "image/jpeg"),
    ],
)
def test_every_format_is_one_scanned_page(tmp_path: Path, image_format: str, media_type: str) -> None:
    exact = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100}}.get(image_format, {})
    path = written(tmp_path, image_bytes(UPRIGHT, image_format, **exact))
    with FileOpener(limits()).open(path) as document:
        assert (document.media_type, document.page_count, document.flags) == (media_type, 1, ())
        assert document.facts(1).page_class is PageClass.SCAN
        assert document.text_layer(1).blocks == ()
        pixels = document.render(1).pixels
    assert np.abs(pixels[..., 0].astype(int) - np.asarray(UPRIGHT)).max() <= 8


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("image_format", ["PNG", "TIFF", "JPEG"])
def test_pictures_are_turned_upright(tmp_path: Path, orientation: int, image_format: str) -> None:
    stored = UPRIGHT
    for turn in TURNS[orientation]:
        stored = stored.transpose(turn)
    exif = Image.Exif()
    exif[274] = orientation
    page = rendered(tmp_path, image_bytes(stored, image_format, exif=exif))
    assert (page.width_px, page.height_px) == UPRIGHT.size
    assert np.abs(grey(page).astype(int) - np.asarray(UPRIGHT)).mean() < 3


class TestColours:
    def test_cyan_and_black_inks_come_out_as_such(self, tmp_path: Path) -> None:
        inks = Image.new("CMYK", (40, 20), (255, 0, 0, 0))
        inks.paste((0, 0, 0, 255), (20, 0, 40, 20))
        for content in (image_bytes(inks, "TIFF"), image_bytes(inks, "JPEG", quality=100)):
            pixels = rendered(tmp_path, content).pixels
            assert pixels[10, 5, 0] < 60
            assert pixels[10, 5, 2] > 120
            assert pixels[10, 35].max() < 60

    @pytest.mark.parametrize("most", [255, 4095, 65_535])
    def test_deep_grey_keeps_its_range(self, tmp_path: Path, most: int) -> None:
        ramp = np.linspace(0, most, 200).astype(np.uint16).reshape(1, -1).repeat(20, axis=0)
        for image_format in ("TIFF", "PNG"):
            shades = grey(rendered(tmp_path, image_bytes(Image.fromarray(ramp), image_format)))[10]
            assert (shades[0], shades[-1]) == (0, 255)
            assert np.abs(np.diff(shades.astype(int))).max() <= 3

    def test_fractions_are_stretched_to_their_range(self, tmp_path: Path) -> None:
        ramp = np.linspace(-1, 1, 200, dtype=np.float32).reshape(1, -1).repeat(20, axis=0)
        shades = grey(rendered(tmp_path, image_bytes(Image.fromarray(ramp), "TIFF")))[10]
        assert (shades[0], shades[100], shades[-1]) == (0, 128, 255)

    def test_what_is_transparent_is_white(self, tmp_path: Path) -> None:
        ink = Image.new("RGBA", (40, 20), (0, 0, 0, 0))
        ink.paste((0, 0, 0, 255), (0, 0, 10, 20))
        palette = ink.convert("RGBA").quantize(4)
        for image in (ink, ink.convert("LA"), palette):
            pixels = rendered(tmp_path, image_bytes(image, "PNG")).pixels
            assert pixels[10, 5].max() < 10
            assert pixels[10, 35].min() > 245

    def test_a_transparent_shade_is_white(self, tmp_path: Path) -> None:
        content = image_bytes(Image.new("L", (20, 20), 0), "PNG", transparency=0)
        assert rendered(tmp_path, content).pixels.min() == 255

    def test_palettes_and_bits_are_resolved(self, tmp_path: Path) -> None:
        colours = Image.new("RGB", (40, 20), (200, 30, 30)).quantize(8)
        assert (
            np.abs(rendered(tmp_path, image_bytes(colours, "GIF")).pixels[5, 5].astype(int) - (200, 30, 30)).max() < 8
        )
        bits = Image.new("1", (40, 20), 1)
        bits.paste(0, (0, 0, 20, 20))
        page = grey(rendered(tmp_path, image_bytes(bits, "TIFF", compression="group4")))
        assert (page[10, 5], page[10, 35]) == (0, 255)


class TestResolution:
    def test_the_file_is_believed(self, tmp_path: Path) -> None:
        facts = facts_of(tmp_path, image_bytes(picture(1275, 1650), "TIFF", dpi=(150, 150)))
        assert (round(facts.width_pt), round(facts.height_pt), facts.dpi) == (612, 792, 150)

    @pytest.mark.parametrize("stated", [(1, 1), (5, 5), (20_000, 20_000), (100, 1200), (72, 72), (96, 96)])
    def test_nonsense_is_not(self, tmp_path: Path, stated: tuple[int, int]) -> None:
        facts = facts_of(tmp_path, image_bytes(picture(400, 200), "TIFF", dpi=stated))
        assert (facts.width_pt, facts.height_pt, facts.dpi) == (144, 72, 200)

    def test_a_fine_scan_is_reduced_to_300_dpi(self, tmp_path: Path) -> None:
        content = image_bytes(picture(1200, 800), "PNG", dpi=(600, 600))
        page = rendered(tmp_path, content)
        assert (page.width_px, page.height_px, round(page.dpi)) == (600, 400, 300)
        expected = np.asarray(picture(1200, 800).resize((600, 400), Image.Resampling.BOX))
        assert np.abs(grey(page).astype(int) - expected).mean() < 2

    def test_a_jpeg_is_decoded_at_a_smaller_scale_and_looks_the_same(self, tmp_path: Path) -> None:
        page = rendered(tmp_path, image_bytes(picture(2400, 1600), "JPEG", dpi=(1200, 1200), quality=95))
        expected = np.asarray(picture(2400, 1600).resize((600, 400), Image.Resampling.BOX))
        assert (page.width_px, page.height_px) == (600, 400)
        assert np.abs(grey(page).astype(int) - expected).mean() < 3

    def test_a_fax_with_oblong_pixels_gets_square_ones(self, tmp_path: Path) -> None:
        page = rendered(tmp_path, image_bytes(picture(1728, 1078), "TIFF", dpi=(204, 98)))
        assert (page.width_px, page.height_px) == (1728, 2244)

    def test_no_page_has_more_pixels_than_allowed(self, tmp_path: Path) -> None:
        page = rendered(tmp_path, image_bytes(picture(1000, 500), "PNG"), max_render_pixels=100_000)
        assert 95_000 < page.width_px * page.height_px <= 100_000

    def test_another_resolution_may_be_asked_for(self, tmp_path: Path) -> None:
        path = written(tmp_path, image_bytes(picture(1200, 800), "JPEG", dpi=(600, 600)))
        with FileOpener(limits()).open(path) as document:
            sizes = [(page.width_px, page.dpi) for page in (document.render(1, dpi=dpi) for dpi in (75, 600, 300))]
        assert sizes == [(150, 75), (1200, 600), (600, 300)]

    def test_a_large_bilevel_scan_is_converted_in_bands(self, tmp_path: Path) -> None:
        bits = Image.new("1", (6000, 7000), 1)
        bits.paste(0, (600, 700, 3000, 3500))
        page = grey(rendered(tmp_path, image_bytes(bits, "TIFF", compression="group4", dpi=(600, 600))))
        assert page.shape == (3500, 3000)
        assert page[1000, 1000] == 0
        assert (page == 0).sum() == pytest.approx(1200 * 1400, rel=0.01)


class TestMultiPage:
    def test_each_picture_of_a_tiff_is_a_page(self, tmp_path: Path) -> None:
        path = written(tmp_path, tiff_bytes(*(Image.new("L", (30 + shade, 20), shade) for shade in (10, 120, 250))))
        with FileOpener(limits()).open(path) as document:
            assert document.page_count == 3
            shades = [int(document.render(number).pixels[5, 5, 0]) for number in (3, 1, 2)]
            widths = [document.render(number).width_px for number in (2, 3, 1)]
        assert shades == [250, 10, 120]
        assert widths == [150, 280, 40]

    def test_a_resolution_holds_for_its_own_page(self, tmp_path: Path) -> None:
        pages = tiff_bytes(picture(300, 300), picture(300, 300), dpi=(150, 150))
        # The second directory's resolution tags become unknown ones.
        second = pages.rfind(struct.pack("<HH", 282, 5))
        path = written(tmp_path, pages[:second] + struct.pack("<H", 50_000) + pages[second + 2 :])
        with FileOpener(limits()).open(path) as document:
            assert [round(document.facts(number).width_pt) for number in (1, 2, 1)] == [144, 108, 144]

    def test_previews_are_no_pages(self, tmp_path: Path) -> None:
        preview = struct.pack("<HHLL", 254, 4, 1, 1)
        content = tiff_bytes(picture(60, 40), picture(30, 20), picture(50, 50), tiffinfo={254: 0})
        entry = struct.pack("<HHLL", 254, 4, 1, 0)
        assert content.count(entry) == 3
        second = content.index(entry, content.index(entry) + 1)
        path = written(tmp_path, content[:second] + preview + content[second + 12 :])
        with FileOpener(limits()).open(path) as document:
            assert [document.render(number).width_px for number in range(1, document.page_count + 1)] == [60, 50]

    def test_a_broken_picture_fails_alone(self, tmp_path: Path) -> None:
        pages = [Image.new("L", (64, 64), shade) for shade in (10, 120, 250)]
        content = tiff_bytes(*pages, compression="tiff_adobe_deflate")
        packed = [content.index(b"\x78\x9c")]
        packed.append(content.index(b"\x78\x9c", packed[0] + 2))
        path = written(tmp_path, content[: packed[1]] + b"\xff\xff\xff\xff" + content[packed[1] + 4 :])
        with FileOpener(limits()).open(path) as document:
            assert document.page_count == 3
            with pytest.raises(RecognitionFailed) as failure:
                document.render(2)
            assert failure.value.code is ErrorCode.PAGE_DAMAGED
            assert document.render(3).pixels[5, 5, 0] == 250

    def test_a_file_cut_short_counts_the_page_that_is_lost(self, tmp_path: Path) -> None:
        content = tiff_bytes(*(Image.new("L", (64, 64), shade) for shade in (10, 120, 250)))
        path = written(tmp_path, content[: len(content) * 3 // 5])
        with FileOpener(limits()).open(path) as document:
            assert document.facts(1).page_class is PageClass.SCAN
            assert document.facts(document.page_count).error_code == ErrorCode.PAGE_DAMAGED
            assert [flag.name for flag in document.flags] == ["pages_lost"]

    def test_a_chain_that_meets_itself_ends(self, tmp_path: Path) -> None:
        content = bytearray(tiff_bytes(picture(20, 20), picture(20, 20)))
        (first,) = struct.unpack_from("<L", content, 4)
        (count,) = struct.unpack_from("<H", content, first)
        (second,) = struct.unpack_from("<L", content, first + 2 + 12 * count)
        (count,) = struct.unpack_from("<H", content, second)
        struct.pack_into("<L", content, second + 2 + 12 * count, first)
        with FileOpener(limits()).open(written(tmp_path, bytes(content))) as document:
            assert document.page_count == 2

    def test_more_pages_than_allowed_are_refused(self, tmp_path: Path) -> None:
        path = written(tmp_path, tiff_bytes(*[picture(10, 10)] * 4))
        with pytest.raises(Rejected) as refusal, FileOpener(limits(max_pages=3)).open(path):
            pass
        assert refusal.value.code is ErrorCode.TOO_MANY_PAGES

    def test_of_an_animation_the_first_frame_is_the_page_and_the_file_says_so(self, tmp_path: Path) -> None:
        frames = [Image.new("L", (20, 20), shade) for shade in (0, 255)]
        content = image_bytes(frames[0], "GIF", save_all=True, append_images=frames[1:])
        with FileOpener(limits()).open(written(tmp_path, content)) as document:
            assert (document.page_count, [flag.name for flag in document.flags]) == (1, ["first_frame_only"])
            assert document.render(1).pixels.max() == 0


class TestDamage:
    @pytest.mark.parametrize("image_format", ["JPEG", "PNG", "BMP", "TIFF", "WEBP", "JPEG2000"])
    def test_a_picture_cut_short_is_unreadable_and_not_filled_up_with_grey(
        self, tmp_path: Path, image_format: str
    ) -> None:
        noise = Image.fromarray(np.random.default_rng(7).integers(0, 256, (200, 300), np.uint8))
        content = image_bytes(noise, image_format)
        path = written(tmp_path, content[: len(content) * 2 // 3])
        assert trouble_with(path) in (ErrorCode.PAGE_DAMAGED, ErrorCode.DAMAGED)

    def test_only_a_signature_is_damaged(self, tmp_path: Path) -> None:
        with pytest.raises(Rejected) as refusal, FileOpener(limits()).open(written(tmp_path, b"\x89PNG\r\n\x1a\n")):
            pass
        assert refusal.value.code is ErrorCode.DAMAGED

    @pytest.mark.parametrize("image_format", ["PNG", "TIFF", "BMP", "GIF", "JPEG", "WEBP", "JPEG2000"])
    def test_the_declared_size_is_looked_at_before_anything_is_decoded(self, tmp_path: Path, image_format: str) -> None:
        content = image_bytes(picture(400, 300), image_format)
        before = Image.MAX_IMAGE_PIXELS
        assert trouble_with(written(tmp_path, content), max_image_pixels=50_000) == ErrorCode.DECOMPRESSION_BOMB
        assert before == Image.MAX_IMAGE_PIXELS

    def test_colour_counts_for_more_than_bits(self, tmp_path: Path) -> None:
        bits, colours = Image.new("1", (300, 300)), Image.new("RGB", (300, 300))
        assert facts_of(tmp_path, image_bytes(bits, "PNG"), max_image_pixels=100_000).error_code is None
        assert facts_of(tmp_path, image_bytes(colours, "PNG"), max_image_pixels=100_000).error_code is not None

    def test_a_picture_that_is_too_long_is_refused(self, tmp_path: Path) -> None:
        content = image_bytes(Image.new("1", (60_000, 10)), "PNG")
        assert facts_of(tmp_path, content).error_code == ErrorCode.PAGE_TOO_LARGE

    def test_a_nonsense_orientation_is_ignored(self, tmp_path: Path) -> None:
        content = image_bytes(UPRIGHT, "PNG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff")
        assert np.array_equal(grey(rendered(tmp_path, content)), np.asarray(UPRIGHT))


def test_turning_is_what_pillow_does(tmp_path: Path) -> None:
    for orientation, turns in TURNS.items():
        stored = UPRIGHT
        for turn in turns:
            stored = stored.transpose(turn)
        exif = Image.Exif()
        exif[274] = orientation
        turned = ImageOps.exif_transpose(Image.open(io.BytesIO(image_bytes(stored, "PNG", exif=exif))))
        assert np.array_equal(np.asarray(turned), np.asarray(UPRIGHT))
