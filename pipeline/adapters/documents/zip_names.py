"""Names of an archive's files as people gave them, fit to be shown; nobody opens anything by them."""

import unicodedata
import zipfile

from pipeline.domain.serialisation import printable

LONGEST = 200
"""Characters kept of a name: its end, as that tells the files of a folder apart."""
_UTF_8 = 0x800
"""Bit of the general purpose flags; APPNOTE 6.3.10, appendix D."""
_UNMARKED = ("utf-8", "gb2312", "cp437")
"""What names that are not marked are written in: tried in this order, as each refuses most of what the next takes."""


def name_of(entry: zipfile.ZipInfo) -> str:
    """Return a file's name with its folders as one line: no control or format characters, no `..`, bounded."""
    name = entry.filename if entry.flag_bits & _UTF_8 else _unmarked(entry.filename.encode("cp437"))
    name = "".join(mark for mark in printable(name) if unicodedata.category(mark) != "Cf")
    name = "/".join(part for part in name.split("/") if part.strip() not in ("", ".", ".."))
    return name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]


def _unmarked(raw: bytes) -> str:
    for encoding in _UNMARKED:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("ascii", "replace")
