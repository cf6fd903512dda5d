"""Documents that lie on web servers."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol


class WebSource(Protocol):
    """Servers that documents are fetched from."""

    def get(self, url: str) -> AbstractContextManager[Iterator[bytes]]:
        """Stream a document.

        Raises: Rejected (`source_not_allowed`, `source_not_found`, `file_too_large`); Transient (`source_unavailable`),
            while it is read as well.
        """
