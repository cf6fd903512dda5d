"""Writes the documents of a drill, small PDFs, and says what each of their pages must come out as."""

import io
from collections.abc import Mapping

import pikepdf
from PIL import Image, ImageDraw

from pipeline.chaos.schedule import Document, PageKind
from pipeline.domain.errors import ErrorCode
from pipeline.domain.recognition import PageOutcome

DPI = 100
"""What the scans are rendered at; also their own resolution."""
_POINTS_PER_PIXEL = 72 / DPI
_SIZES_PX = {PageKind.SCAN: (400, 200), PageKind.KILLS: (300, 200), PageKind.FAILS: (350, 200)}
SIMULATED_SIZES: Mapping[str, str] = {"300x200": "kill", "350x200": "fail"}
"""What the simulated engine is to do on pictures of these sizes."""
_NO_DOCUMENT = b"This is not a document.\n"

EXPECTED: Mapping[PageKind, tuple[PageOutcome, ErrorCode | None]] = {
    PageKind.SCAN: (PageOutcome.RECOGNISED, None),
    PageKind.TEXT: (PageOutcome.TEXT_LAYER, None),
    PageKind.BLANK: (PageOutcome.BLANK, None),
    PageKind.KILLS: (PageOutcome.FAILED, ErrorCode.PROCESS_DIED),
    PageKind.FAILS: (PageOutcome.FAILED, ErrorCode.ENGINE_FAILED),
}


def expected_text(kind: PageKind, number: int) -> str:
    """Return the words of a page, counted from 1, that must be in the result, joined by single spaces."""
    match kind:
        case PageKind.SCAN:
            return f"page {number}"
        case PageKind.TEXT:
            return " ".join(_lines(number))
        case PageKind.BLANK | PageKind.KILLS | PageKind.FAILS:
            return ""


def write(document: Document) -> bytes:
    """Return the document as a file."""
    if not document.pages:
        return _NO_DOCUMENT
    with pikepdf.new() as pdf:
        scans = {kind: _scan(pdf, size) for kind, size in _SIZES_PX.items()}
        font = pdf.make_indirect(
            pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        )
        for number, kind in enumerate(document.pages, start=1):
            width, height = (length * _POINTS_PER_PIXEL for length in _SIZES_PX.get(kind, _SIZES_PX[PageKind.SCAN]))
            page = pdf.add_blank_page(page_size=(width, height))
            if kind is PageKind.TEXT:
                page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
                page.Contents = pdf.make_stream(_text_content(number))
            elif kind is not PageKind.BLANK:
                page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Scan=scans[kind]))
                page.Contents = pdf.make_stream(f"{width} 0 0 {height} 0 0 cm /Scan Do".encode())
        # Two documents with the same pages would be one original.
        pdf.docinfo["/Title"] = document.name
        written = io.BytesIO()
        pdf.save(written)
        return written.getvalue()


def _lines(number: int) -> tuple[str, str]:
    return (
        f"Page {number}. The minutes of the board were read and found",
        "to be in good order; the treasurer then gave his report.",
    )


def _text_content(number: int) -> bytes:
    shown = " ".join(f"({line}) Tj T*" for line in _lines(number))
    return f"BT /F1 9 Tf 12 TL 20 100 Td {shown} ET".encode()


def _scan(pdf: pikepdf.Pdf, size_px: tuple[int, int]) -> pikepdf.Object:
    """Return a picture with ink, as an image of the file."""
    picture = Image.new("L", size_px, 255)
    ImageDraw.Draw(picture).text((20, 60), "A SCANNED PAGE", fill=0, font_size=30)
    encoded = io.BytesIO()
    picture.save(encoded, "JPEG")
    image = pikepdf.Stream(pdf, encoded.getvalue())
    image.Type, image.Subtype = pikepdf.Name.XObject, pikepdf.Name.Image
    image.Width, image.Height = size_px
    image.ColorSpace, image.BitsPerComponent, image.Filter = pikepdf.Name.DeviceGray, 8, pikepdf.Name.DCTDecode
    return pdf.make_indirect(image)
