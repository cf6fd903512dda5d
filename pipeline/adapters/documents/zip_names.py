"""Names of an archive's files as people gave them, fit to be shown; nobody opens anything by them."""

import re
import unicodedata
import zipfile
from contextlib import suppress

from pipeline.domain.serialisation import printable

LONGEST = 200
"""Characters kept of a name: its end, as that tells the files of a folder apart."""
_UTF_8 = 0x800
"""Bit of the general purpose flags; APPNOTE 6.3.10, appendix D."""
_CHINESE = re.compile(r"([ -~\u3000-\u303f\uff00-\uffef]|[\u3400-\u9fff\U00020000-\U0003ffff]{2,}+)*+")
"""In a word of another language an accent and the letter after it would be one ideograph among letters."""


def name_of(entry: zipfile.ZipInfo) -> str | None:
    """Return a file's name with its folders as one line: no control or format characters, no `..`, bounded.

    None if nothing is left of it. Names that are not marked as UTF-8 are read as that, as Chinese, or as code page 437.
    """
    name = entry.filename if entry.flag_bits & _UTF_8 else _unmarked(entry.filename)
    name = "".join(mark for mark in printable(name) if unicodedata.category(mark) != "Cf")
    name = "/".join(part for part in name.replace("\\", "/").split("/") if part.strip() not in ("", ".", ".."))
    return (name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]) or None


def _unmarked(name: str) -> str:
    try:
        raw = name.encode("cp437")  # which it was decoded from, whatever it is
    except UnicodeEncodeError:
        return name
    for encoding in ("utf-8", "gb2312"):
        with suppress(UnicodeDecodeError):
            return raw.decode(encoding)
    with suppress(UnicodeDecodeError):
        chinese = raw.decode("gb18030")
        if _CHINESE.fullmatch(chinese):
            return chinese
    return name
