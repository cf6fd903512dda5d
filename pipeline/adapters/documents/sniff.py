"""Tells what a file is by its first bytes; its name is never asked. The first thing that happens to a document."""

import re

from pipeline.domain.errors import ErrorCode, Rejected

HEAD_BYTES = 1024
"""How much of a file has to be seen. ISO 32000-1, annex H, note 13: a PDF header may lie that far in."""

PDF = "application/pdf"
TIFF = "image/tiff"
PNG = "image/png"
JPEG = "image/jpeg"
JPEG_2000 = "image/jp2"
WEBP = "image/webp"
BMP = "image/bmp"
GIF = "image/gif"
PNM = "image/x-portable-anymap"
ZIP = "application/zip"

_ACCEPTED = "PDF, TIFF, PNG, JPEG, JPEG 2000, WebP, BMP, GIF, PNM or a ZIP of pictures"
_XML, _WEB_PAGE, _PROGRAM = "XML", "a web page", "a program"

OFD_DOCUMENT, OFD_REMEDY = "an OFD document (GB/T 33190)", "export it as PDF, as OFD readers can"

_READABLE: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), media_type)
    for pattern, media_type in (
        (rb"(II[*+]\0|MM\0[*+])", TIFF),
        (rb"\x89PNG\r\n\x1a\n", PNG),
        (rb"\xff\xd8\xff", JPEG),
        (rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51", JPEG_2000),
        (rb"RIFF.{4}WEBP", WEBP),
        (rb"BM.{4}\0{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0{3}", BMP),
        (rb"GIF8[79]a", GIF),
        (rb"P[1-7][\s#]", PNM),
    )
)

_REFUSED: tuple[tuple[re.Pattern[bytes], str, str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), looks_like, remedy)
    for pattern, looks_like, remedy in (
        (rb".{4}ftyp(hei[cxms]|he[vi][cxms]|mif1|msf1|avif)", "a HEIC or AVIF picture", "convert it to JPEG or PNG"),
        (rb".{4}ftyp", "a film or sound recording", f"send {_ACCEPTED}"),
        (rb"PK\x03\x04.{26}(word|xl|ppt|\[Content_Types)", "an Office document", "export it as PDF"),
        (rb"PK\x03\x04.{26}mimetypeapplication/(vnd\.oasis|epub)", "an OpenDocument or EPUB file", "export it as PDF"),
        (rb"PK\x03\x04.{26}OFD\.xml", OFD_DOCUMENT, OFD_REMEDY),
        (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", "export it as PDF"),
        (rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\x1f\x8b|BZh|\xfd7zXZ\0|\x28\xb5\x2f\xfd", "an archive", "unpack it first"),
        (rb"AT&TFORM.{4}DJV", "a DjVu document", "convert it to PDF"),
        (rb"8BPS", "a Photoshop file", "export it as TIFF or PNG"),
        (rb"%!PS|\xc5\xd0\xd3\xc6", "PostScript", "convert it to PDF"),
        (rb"\x7fELF|MZ.{0,1022}PE\0\0", _PROGRAM, f"send {_ACCEPTED}"),
        (rb"\{\\rtf", "an RTF document", "export it as PDF"),
        (rb"\s*<\?xml.{0,900}<svg|\s*<svg", "an SVG drawing", "export it as PDF or PNG"),
        (rb"(?i)\s*(<!--.{0,500}-->\s*)?(<!doctype\s+html|<html|<head)", _WEB_PAGE, "print it to PDF"),
        (rb"\s*<\?xml", _XML, f"send {_ACCEPTED}"),
        (rb"(?i)(from |received: |return-path: |mime-version: )", "an e-mail", "save its attachments and send those"),
    )
)

_ZIP = re.compile(rb"PK(\x03\x04|\x05\x06|\x07\x08)")
_ACCOMPANIES = frozenset({_XML, _WEB_PAGE, _PROGRAM})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def media_type_of(head: bytes) -> str:
    """Return the media type of the file that begins with `head`, its first `HEAD_BYTES` or all of it.

    Raises: Rejected (`empty_file`, `unsupported_type` for what is recognised and not read, `not_a_document`).
    """
    if not head:
        raise Rejected(ErrorCode.EMPTY_FILE, "The file is empty (0 bytes): send it again, or send its source.")
    for pattern, media_type in _READABLE:
        if pattern.match(head):
            return media_type
    refused = _refused(head)
    if refused is None and _ZIP.match(head):
        return ZIP
    is_binary_container = refused is not None and b"\0" in head[:64]
    if not is_binary_container and b"%PDF-" in head[:HEAD_BYTES]:
        return PDF
    if refused:
        what, remedy = refused
        raise Rejected(ErrorCode.UNSUPPORTED_TYPE, f"The file looks like {what}, which is not read here: {remedy}.")
    kind = "plain text" if _is_text(head) else "no known format"
    raise Rejected(ErrorCode.NOT_A_DOCUMENT, f"The file is {kind}, not a document with pages: send {_ACCEPTED}.")


def may_accompany(head: bytes) -> bool:
    """Whether a file that begins so may lie beside pictures without being one of the pages, nor holding any.

    Descriptions, checksums, what a system left behind: text, XML, web pages and whatever is not known.
    """
    refused = _refused(head)
    return refused is None or refused[0] in _ACCOMPANIES


def _refused(head: bytes) -> tuple[str, str] | None:
    """Return what a file looks like that is known and not read, and what to do about that."""
    text = head.removeprefix(_BYTE_ORDER_MARK)
    return next(((what, remedy) for pattern, what, remedy in _REFUSED if pattern.match(text)), None)


def _is_text(head: bytes) -> bool:
    return not any(byte < 9 or 13 < byte < 32 for byte in head)
