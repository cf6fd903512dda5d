"""Small documents, made as a test needs them."""

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
from pikepdf import Array, Dictionary, Name, Stream, String
from PIL import Image, ImageDraw

from pipeline.ports.documents import DocumentLimits

LETTER = (0, 0, 612, 792)
LONG_TEXT = (
    "The harbour office keeps a ledger of every ship that enters.",
    "Each line holds a name, a flag, a tonnage and a day of the year.",
    "Nobody has read the older volumes since the flood of that spring.",
)
BAD_OCR = (
    "Tbe h@rb0ur 0ff~ce k~~ps a led&er",
    "of ev~ry sh!p th=t en|ers xqzvwk",
    "rspedrllydes@?dredundantbusand m<re",
)


def limits(**changes: Any) -> DocumentLimits:
    """The usual limits, scaled down where tests would be slow."""
    usual: dict[str, Any] = {
        "max_pages": 500,
        "max_page_side_pt": 14_400.0,
        "max_image_pixels": 200_000_000,
        "max_render_pixels": 40_000_000,
        "max_unpacked_bytes": 1024**3,
        "dpi": 200.0,
        "finest_scan_dpi": 300.0,
    }
    return DocumentLimits(**usual | changes)


@dataclass
class Packed:
    """Page content that is compressed already."""

    packed: bytes


@dataclass
class Page:
    """One page of a PDF to be made."""

    content: bytes | Packed = b""
    box: Sequence[float] = LETTER
    crop: Sequence[float] | None = None
    rotate: int = 0
    images: dict[str, Any] = field(default_factory=dict)
    fonts: dict[str, Any] = field(default_factory=dict)
    annotations: list[Any] = field(default_factory=list)


def text(*lines: str, x: float = 72, y: float = 700, size: float = 12, leading: float = 14, mode: int = 0) -> bytes:
    """Content that sets lines in Helvetica, the first with its baseline at y."""
    shown = b" ".join(b"(%s) Tj T*" % line.encode("latin-1").replace(b"(", b"\\(") for line in lines)
    return b"BT /F0 %g Tf %g TL %d Tr %g %g Td %s ET\n" % (size, leading, mode, x, y, shown)


def image_at(name: str, x: float, y: float, width: float, height: float) -> bytes:
    """Content that draws an image."""
    return b"q %g 0 0 %g %g %g cm /%s Do Q\n" % (width, height, x, y, name.encode())


def picture(width: int, height: int, shade: int = 200) -> Image.Image:
    """A grey picture with a dark frame and a dark square near its top left corner."""
    image = Image.new("L", (width, height), shade)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, width - 1, height - 1), outline=0)
    draw.rectangle((width // 10, height // 10, width // 4, height // 5), fill=0)
    return image


def pdf_bytes(*pages: Page, **save: Any) -> bytes:
    """A PDF with these pages."""
    pdf = pikepdf.new()
    helvetica = pdf.make_indirect(Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica))
    for page in pages:
        _add(pdf, page, helvetica)
    target = io.BytesIO()
    if "encryption" not in save:
        save = {"stream_decode_level": pikepdf.StreamDecodeLevel.none} | save
    pdf.save(target, **save)
    return target.getvalue()


def pdf_file(folder: Path, *pages: Page, **save: Any) -> Path:
    """A file with these pages; its name says nothing about its type."""
    path = folder / "document.bin"
    path.write_bytes(pdf_bytes(*pages, **save))
    return path


def _add(pdf: pikepdf.Pdf, page: Page, helvetica: Any) -> None:
    entries: dict[str, Any] = {
        "Type": Name.Page,
        "MediaBox": Array(list(page.box)),
        "Resources": Dictionary(Font=Dictionary(F0=helvetica), XObject=Dictionary()),
        "Contents": _content(pdf, page.content),
    }
    if page.crop:
        entries["CropBox"] = Array(list(page.crop))
    if page.rotate:
        entries["Rotate"] = page.rotate
    made = pdf.make_indirect(Dictionary(**entries))
    for name, image in page.images.items():
        made.Resources.XObject[f"/{name}"] = image(pdf) if callable(image) else _image(pdf, image)
    for name, font in page.fonts.items():
        made.Resources.Font[f"/{name}"] = font(pdf)
    if page.annotations:
        made.Annots = Array([pdf.make_indirect(annotation(pdf)) for annotation in page.annotations])
        fields = [annotation for annotation in made.Annots if annotation.get("/FT")]
        if fields:
            pdf.Root.AcroForm = pdf.make_indirect(Dictionary(Fields=Array(fields)))
    pdf.pages.append(pikepdf.Page(made))


def _content(pdf: pikepdf.Pdf, content: bytes | Packed) -> Stream:
    if isinstance(content, Packed):
        return Stream(pdf, content.packed, Filter=Name.FlateDecode)
    return pdf.make_stream(content)


def swollen(size: int) -> Packed:
    """So many spaces: content that draws nothing and is large once it is unpacked."""
    packer = zlib.compressobj(1)
    step = 1024**2
    pieces = [packer.compress(b" " * step) for _ in range(size // step)]
    return Packed(b"".join(pieces) + packer.flush())


def _image(pdf: pikepdf.Pdf, image: Image.Image) -> Stream:
    space = {"L": Name.DeviceGray, "RGB": Name.DeviceRGB, "1": Name.DeviceGray}[image.mode]
    return Stream(
        pdf,
        zlib.compress(image.tobytes()),
        Type=Name.XObject,
        Subtype=Name.Image,
        Width=image.width,
        Height=image.height,
        ColorSpace=space,
        BitsPerComponent=1 if image.mode == "1" else 8,
        Filter=Name.FlateDecode,
    )


def declared_image(width: int, height: int, bits: int = 8) -> Any:
    """An image that claims a size and has next to no data."""

    def make(pdf: pikepdf.Pdf) -> Stream:
        return Stream(
            pdf,
            zlib.compress(b"\xff" * 100),
            Type=Name.XObject,
            Subtype=Name.Image,
            Width=width,
            Height=height,
            ColorSpace=Name.DeviceGray,
            BitsPerComponent=bits,
            Filter=Name.FlateDecode,
        )

    return make


def mapped_font(*characters: str) -> Any:
    """A font whose codes 65, 66, ... stand for these characters."""
    lines = "\n".join(
        f"<{65 + index:02x}> <{character.encode('utf-16-be').hex()}>" for index, character in enumerate(characters)
    )
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def"
        " 1 begincodespacerange <00> <ff> endcodespacerange"
        f" {len(characters)} beginbfchar\n{lines}\nendbfchar endcmap end end"
    )

    def make(pdf: pikepdf.Pdf) -> Any:
        return pdf.make_indirect(
            Dictionary(
                Type=Name.Font,
                Subtype=Name.Type1,
                BaseFont=Name.Helvetica,
                ToUnicode=pdf.make_stream(cmap.encode()),
            )
        )

    return make


def chinese_font(pdf: pikepdf.Pdf) -> Any:
    """A font that is not embedded and coded in UTF-16."""
    descendant = Dictionary(
        Type=Name.Font,
        Subtype=Name.CIDFontType0,
        BaseFont=Name("/STSong-Light"),
        CIDSystemInfo=Dictionary(Registry=String("Adobe"), Ordering=String("GB1"), Supplement=2),
        DW=1000,
    )
    return pdf.make_indirect(
        Dictionary(
            Type=Name.Font,
            Subtype=Name.Type0,
            BaseFont=Name("/STSong-Light"),
            Encoding=Name("/UniGB-UCS2-H"),
            DescendantFonts=Array([descendant]),
        )
    )


def link(_: pikepdf.Pdf) -> Any:
    """A link, which shows nothing."""
    return Dictionary(Type=Name.Annot, Subtype=Name.Link, Rect=Array([10, 10, 90, 30]), Border=Array([0, 0, 0]))


def drawn(subtype: str, content: bytes, *, flags: int = 4, **entries: Any) -> Any:
    """An annotation that draws this on a box of 200 x 40 points."""

    def make(pdf: pikepdf.Pdf) -> Any:
        appearance = Stream(
            pdf,
            content,
            Type=Name.XObject,
            Subtype=Name.Form,
            BBox=Array([0, 0, 200, 40]),
            Resources=Dictionary(
                Font=Dictionary(F0=Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica))
            ),
        )
        return Dictionary(
            Type=Name.Annot,
            Subtype=Name(f"/{subtype}"),
            Rect=Array([200, 690, 400, 730]),
            F=flags,
            AP=Dictionary(N=pdf.make_indirect(appearance)),
            **entries,
        )

    return make


def filled_field(value: str) -> Any:
    """A text field with a value, to the right of what `text()` sets first."""
    return drawn(
        "Widget", b"BT /F0 12 Tf 2 12 Td (%s) Tj ET" % value.encode(), FT=Name.Tx, T=String("name"), V=String(value)
    )


def tiff_bytes(*frames: Image.Image, **save: Any) -> bytes:
    """A TIFF with these pictures."""
    target = io.BytesIO()
    frames[0].save(target, "TIFF", save_all=True, append_images=frames[1:], **save)
    return target.getvalue()


def image_bytes(image: Image.Image, image_format: str, **save: Any) -> bytes:
    """An image file."""
    target = io.BytesIO()
    image.save(target, image_format, **save)
    return target.getvalue()


def darkest_box(pixels: np.ndarray[Any, Any]) -> tuple[int, int, int, int]:
    """Where the ink is: left, top, right, bottom."""
    dark = np.asarray(pixels).min(axis=2) < 128
    ys, xs = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    return int(xs[0]), int(ys[0]), int(xs[-1]) + 1, int(ys[-1]) + 1
