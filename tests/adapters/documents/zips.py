"""ZIPs of all sorts, made as a test needs them."""

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from tests.adapters.documents.builders import image_bytes, picture

Files = Mapping[str, bytes] | Sequence[tuple[str, bytes]]


def zip_bytes(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP with these files, in the order given."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in files.items() if isinstance(files, Mapping) else files:
            archive.writestr(name, content)
    return target.getvalue()


def zip_file(folder: Path, files: Files, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """The same as a file, whose name says nothing about its type."""
    path = folder / "document.bin"
    path.write_bytes(zip_bytes(files, method))
    return path


def png(width: int = 40, height: int = 20, dpi: int = 72) -> bytes:
    return image_bytes(picture(width, height), "PNG", dpi=(dpi, dpi))


def tiff(*widths: int) -> bytes:
    """A TIFF with a page of each width."""
    first, *others = [Image.new("L", (width, 20), 255) for width in widths]
    return image_bytes(first, "TIFF", save_all=True, append_images=others)


def encrypted(content: bytes, password: bytes) -> bytes:
    """A ZIP made by `zip_bytes` of one stored file, encrypted as PKWARE did first (APPNOTE 6.3.10, 6.1)."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    [entry] = archive.infolist()
    plain = bytes(11) + bytes([entry.CRC >> 24]) + archive.read(entry)
    start = entry.header_offset + 30 + len(entry.filename)
    end = start + entry.file_size
    local = bytearray(content[entry.header_offset : start])
    central = bytearray(content[end:])
    directory = central.index(b"PK\x01\x02")
    for header, flags, size in ((local, 6, 18), (central, directory + 8, directory + 20)):
        header[flags] |= 1
        header[size : size + 4] = (entry.file_size + 12).to_bytes(4, "little")
    end_of_directory = central.rindex(b"PK\x05\x06")
    central[end_of_directory + 16 : end_of_directory + 20] = (end + 12).to_bytes(4, "little")
    return bytes(local) + _traditionally_encrypted(plain, password) + bytes(central)


def _traditionally_encrypted(plain: bytes, password: bytes) -> bytes:
    keys = [0x12345678, 0x23456789, 0x34567890]

    def crc(before: int, byte: int) -> int:
        return zlib.crc32(bytes([byte]), before ^ 0xFFFFFFFF) ^ 0xFFFFFFFF

    def update(byte: int) -> None:
        keys[0] = crc(keys[0], byte)
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = crc(keys[2], keys[1] >> 24)

    for byte in password:
        update(byte)
    result = bytearray()
    for byte in plain:
        temporary = keys[2] | 2
        result.append(byte ^ (((temporary * (temporary ^ 1)) >> 8) & 0xFF))
        update(byte)
    return bytes(result)


def with_method(content: bytes, method: int) -> bytes:
    """The ZIP with its files said to be packed in another way."""
    changed = bytearray(content)
    for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        found = changed.find(mark)
        while found >= 0:
            changed[found + at : found + at + 2] = method.to_bytes(2, "little")
            found = changed.find(mark, found + 1)
    return bytes(changed)
