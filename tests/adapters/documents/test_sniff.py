import pytest

from pipeline.adapters.documents.sniff import HEAD_BYTES, media_type_of
from pipeline.domain.errors import ErrorCode, Rejected


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (b"%PDF-1.7\n", "application/pdf"),
        (b"\0" * 40 + b"junk %PDF-1.4", "application/pdf"),
        (b"\xef\xbb\xbf%PDF-1.4", "application/pdf"),
        (b"II*\0\x08\0\0\0", "image/tiff"),
        (b"MM\0*\0\0\0\x08", "image/tiff"),
        (b"II+\0\x08\0\0\0", "image/tiff"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 ", "image/jp2"),
        (b"\xff\x4f\xff\x51\0\x2f", "image/jp2"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", "image/bmp"),
        (b"GIF89a\x01\0\x01\0", "image/gif"),
        (b"P5\n640 480\n255\n", "image/x-portable-anymap"),
        (b"PK\x03\x04" + b"\0" * 26 + b"scan-1.pdf %PDF-1.4", "application/zip"),
        (b"PK\x05\x06" + b"\0" * 18, "application/zip"),
    ],
)
def test_the_type_is_what_the_content_says(head: bytes, media_type: str) -> None:
    assert media_type_of(head) == media_type


@pytest.mark.parametrize(
    ("head", "looks_like"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
        (b"\0\0\0\x20ftypisom", "film"),
        (b"PK\x03\x04" + b"\0" * 26 + b"[Content_Types].xml", "Office"),
        (b"PK\x03\x04" + b"\0" * 26 + b"mimetypeapplication/vnd.oasis.opendocument.text", "OpenDocument"),
        (b"PK\x03\x04" + b"\0" * 26 + b"OFD.xml<?xml", "OFD"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Office"),
        (b"\x1f\x8b\x08\0", "archive"),
        (b"AT&TFORM\0\0\0\x08DJVU", "DjVu"),
        (b"%!PS-Adobe-3.0", "PostScript"),
        (b"{\\rtf1\\ansi", "RTF"),
        (b"\n<!DOCTYPE html><html>", "web page"),
        (b"<?xml version='1.0'?><svg xmlns=''>", "SVG"),
        (b"<?xml version='1.0'?><book/>", "XML"),
        (b"\x7fELF\x02", "program"),
    ],
)
def test_what_is_recognised_but_not_read_is_refused_by_name(head: bytes, looks_like: str) -> None:
    with pytest.raises(Rejected, match=looks_like) as refusal:
        media_type_of(head)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_TYPE


@pytest.mark.parametrize("head", [b"potato salad", b"\0\1\2\3" * 20, b"BMW sales figures", b"MM\0?"])
def test_anything_else_is_not_a_document(head: bytes) -> None:
    with pytest.raises(Rejected, match="send PDF") as refusal:
        media_type_of(head)
    assert refusal.value.code is ErrorCode.NOT_A_DOCUMENT


def test_nothing_at_all_is_an_empty_file() -> None:
    with pytest.raises(Rejected) as refusal:
        media_type_of(b"")
    assert refusal.value.code is ErrorCode.EMPTY_FILE


def test_a_pdf_header_too_far_in_is_none() -> None:
    with pytest.raises(Rejected) as refusal:
        media_type_of(b" " * HEAD_BYTES + b"%PDF-1.7")
    assert refusal.value.code is ErrorCode.NOT_A_DOCUMENT
