"""Writes `document.md`: headings and paragraphs in reading order, with a mark where each page begins.

Text is escaped only where CommonMark (0.31) or GitHub's tables and strikethrough would read something else into it.
"""

import re
from collections.abc import Iterable, Iterator

from pipeline.adapters.writers.page_check import checked
from pipeline.adapters.writers.paragraphs import join_lines
from pipeline.domain.assembly import DocumentHeader
from pipeline.domain.recognition import Block, BlockKind, PageOutcome, PageResult
from pipeline.domain.serialisation import normalised

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

_LINES_MATTER = (BlockKind.TABLE, BlockKind.FIGURE, BlockKind.FORMULA)
_HARD_BREAK = "\\\n"


def write_markdown(header: DocumentHeader, pages: Iterable[PageResult]) -> Iterator[bytes]:
    """Yield the document as CommonMark in UTF-8, each page after a comment with its number.

    Raises: PipelineError (`ledger_broken`), if the pages are not those of the header; what was yielded is void then.
    """
    for page in checked(header, pages):
        parts = [_page_mark(page), *filter(None, map(_block, normalised(page).blocks))]
        separator = "" if page.number == 1 else "\n"
        yield (separator + "\n\n".join(parts) + "\n").encode()


def _page_mark(page: PageResult) -> str:
    match page.outcome:
        case PageOutcome.FAILED:
            return f"<!-- page {page.number}: failed ({page.error_code}) -->"
        case PageOutcome.BLANK:
            return f"<!-- page {page.number}: blank -->"
        case PageOutcome.TEXT_LAYER | PageOutcome.RECOGNISED:
            return f"<!-- page {page.number} -->"


def _block(block: Block) -> str:
    texts = [line.text for line in block.lines]
    if block.kind in _LINES_MATTER:
        return _HARD_BREAK.join(escaped(text.strip()) for text in texts if text.strip())
    joined = escaped(join_lines(texts))
    if block.kind is BlockKind.HEADING and joined:
        return "## " + _CLOSING_HASHES.sub(r"\\", joined)
    return joined


def escaped(line: str) -> str:
    """Return one line of text such that Markdown shows it as it is."""
    line = line.strip()
    shown = _EMPHASIS.sub(_escaped_emphasis, _SPECIAL.sub(r"\\\g<0>", line))
    if _AT_LINE_START.match(line) and not shown.startswith("\\"):
        return "\\" + shown
    return _LIST_NUMBER.sub(r"\1\\", shown, count=1) if _LIST_NUMBER.match(line) else shown


def _escaped_emphasis(run: re.Match[str]) -> str:
    before, after = run.string[max(0, run.start() - 1) : run.start()], run.string[run.end() : run.end() + 1]
    is_apart = (not before or before.isspace()) and (not after or after.isspace())
    is_in_word = run[0][0] == "_" and before.isalnum() and after.isalnum()
    return run[0] if is_apart or is_in_word else "".join(f"\\{character}" for character in run[0])
