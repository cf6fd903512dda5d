"""Escapes what CommonMark (0.31) or GitHub's tables and strikethrough would take for their own marks."""

import re

_PUNCTUATION = re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_SPECIAL = re.compile(
    rf"\\(?=[{_PUNCTUATION}]|$)"  # would escape what follows, or break the line
    r"|`"
    r"|](?=[(\[:])"  # the middle of a link, of a reference, or of its definition
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#?\w+;)"
)
_EMPHASIS = re.compile(r"\*+|_+|~+")
_AT_LINE_START = re.compile(
    r"#{1,6}(\s|$)|>|[-+*](\s|$)|~~~"  # heading, quotation, item, fence
    r"|=+$|-+$|([-_*]\s*){3,}$"  # a line below a heading, a rule
    r"|(?=[|:\s]*-)[|:\s-]+$"  # a line below a table's head
)
_LIST_NUMBER = re.compile(r"(\d{1,9})(?=[.)](\s|$))")
_CLOSING_HASHES = re.compile(r"(?<=\s)(?=#+$)")


def escaped(line: str) -> str:
    """Return one line of text such that Markdown shows it as it is, at the beginning of a line too."""
    line = line.strip()
    shown = escaped_within(line)
    if _AT_LINE_START.match(line) and not shown.startswith("\\"):
        return "\\" + shown
    return _LIST_NUMBER.sub(r"\1\\", shown, count=1) if _LIST_NUMBER.match(line) else shown


def escaped_within(line: str) -> str:
    """Return one line of text such that Markdown shows it as it is behind something else: in a heading or cell."""
    return _EMPHASIS.sub(_escaped_emphasis, _SPECIAL.sub(r"\\\g<0>", line.strip()))


def escaped_heading(level: int, line: str) -> str:
    """Return one line of text as a heading; a number sign at its end would be read as its closing."""
    return _CLOSING_HASHES.sub(r"\\", "#" * level + " " + escaped_within(line))


def _escaped_emphasis(run: re.Match[str]) -> str:
    before, after = run.string[max(0, run.start() - 1) : run.start()], run.string[run.end() : run.end() + 1]
    is_apart = (not before or before.isspace()) and (not after or after.isspace())
    is_in_word = run[0][0] == "_" and before.isalnum() and after.isalnum()
    return run[0] if is_apart or is_in_word else "".join(f"\\{character}" for character in run[0])
