"""Opens any document that can be read here, by what is in the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.adapters.documents import sniff
from pipeline.domain.password import Password
from pipeline.ports.documents import DocumentLimits, OpenDocument


class FileOpener:
    """Opens PDFs, image files and archives of those within limits. Readers are imported when they are first needed."""

    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits

    @contextmanager
    def open(self, path: Path, *, password: Password | None = None) -> Iterator[OpenDocument]:
        """Open a file, which stays where it is until closed. Raises: Rejected, with one of the document's codes."""
        with path.open("rb") as file:
            media_type = sniff.media_type_of(file.read(sniff.HEAD_BYTES))
        if media_type == sniff.PDF:
            from pipeline.adapters.documents.pdf_opening import open_pdf  # noqa: PLC0415 - each reader costs 50 to 100 ms

            with open_pdf(path, self._limits, password) as document:
                yield document
        elif media_type == sniff.ZIP:
            from pipeline.adapters.documents.archive import open_archive  # noqa: PLC0415

            with open_archive(path, self._limits, password) as archive:
                yield archive
        else:
            from pipeline.adapters.documents.images import open_image  # noqa: PLC0415

            with open_image(path, media_type, self._limits) as picture:
                yield picture
