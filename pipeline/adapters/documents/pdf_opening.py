"""Opens PDFs: repaired once where that is needed, and with all of their pages where two readers disagree about them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pypdfium2

from pipeline.adapters.documents.pdf import PDFIUM, PdfFile
from pipeline.adapters.documents.pdf_repair import repaired, walked_page_count
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.password import Password
from pipeline.domain.recognition import Flag
from pipeline.ports.documents import DocumentLimits


@contextmanager
def open_pdf(path: Path, limits: DocumentLimits, password: Password | None = None) -> Iterator[PdfFile]:
    """Open a PDF, repairing it once if that is needed; no page is looked at.

    Raises: Rejected (`password_required`, `password_wrong`, `damaged`, `zero_pages`, `too_many_pages`,
        `unsupported_type`).
    """
    with ExitStack() as stack:
        document = _load(path, password)
        if document is not None:
            stack.callback(_close, document)
            yield _counted_twice(stack, document, path, limits, password)
            return
        copy = stack.enter_context(repaired(path, password))
        document = _load(copy.path)
        if document is None:
            raise Rejected(ErrorCode.DAMAGED, "The PDF is damaged beyond repair: fetch it again, or scan it again.")
        stack.callback(_close, document)
        flags = (Flag(name="repaired"),)
        yield PdfFile(
            document, limits, pages=_count(document), stated_pages=copy.stated_pages, flags=flags, is_repaired=True
        )


def _counted_twice(
    stack: ExitStack, document: Any, path: Path, limits: DocumentLimits, password: Password | None
) -> PdfFile:
    """Return the PDF with the larger number of pages that holds, where its readers disagree.

    PDFium believes the numbers that stand in the page tree; the second reader walks it, and a copy that it writes has
    the right ones.
    """
    first, second = _count(document), walked_page_count(path, password, limits.max_pages)
    if second is None or first == second:
        return PdfFile(document, limits, pages=first)
    flags = (Flag(name="page_count_disputed", score=abs(first - second) / max(first, second)),)
    if second < first:
        holds = _loads(document, second) or _loads(document, first - 1)
        return PdfFile(document, limits, pages=first if holds else second, flags=flags)
    try:
        copy = _load(stack.enter_context(repaired(path, password)).path)
    except Rejected:
        copy = None
    if copy is None:
        return PdfFile(document, limits, pages=first, flags=flags)
    stack.callback(_close, copy)
    document = max(document, copy, key=_count)
    return PdfFile(document, limits, pages=_count(document), flags=flags)


def _count(document: Any) -> int:
    with PDFIUM:
        return len(document)


def _loads(document: Any, index: int) -> bool:
    with PDFIUM, suppress(pypdfium2.PdfiumError):
        document[index].close()
        return True
    return False


def _load(path: Path, password: Password | None = None) -> Any:
    """Return the document, or None where PDFium can't make pages of it.

    Why it can't is asked of the second reader: PDFium 8149 leaves the last failure's code standing where a document
    has no pages, so that one after an encrypted one seems encrypted.
    """
    with PDFIUM:
        try:
            document = pypdfium2.PdfDocument(path, password=password.reveal if password else None)
        except pypdfium2.PdfiumError:
            return None
        if len(document) < 1:
            document.close()
            return None
        # A form that PDFium can't make sense of is not filled in on the page; everything else still is.
        with suppress(pypdfium2.PdfiumError):
            document.init_forms()
        return document


def _close(document: Any) -> None:
    with PDFIUM:
        document.close()
