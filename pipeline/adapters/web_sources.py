"""Documents that are fetched by HTTP from where a job's row says."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import urlsplit

from pipeline.adapters.outbound import Answer, Outbound, Unreachable
from pipeline.domain.errors import ErrorCode, Rejected, Transient
from pipeline.domain.web import NotAllowed

_MOST_REDIRECTS = 5
_DENIED = frozenset({401, 402, 403, 407, 451})
_LATER = frozenset({408, 425, 429})


class WebSources:
    """WebSource over HTTP."""

    def __init__(self, outbound: Outbound, *, within: timedelta, max_bytes: int) -> None:
        """Args: within is how long a document may take."""
        self._outbound = outbound
        self._within = within
        self._max_bytes = max_bytes

    @contextmanager
    def get(self, url: str) -> Iterator[Iterator[bytes]]:
        """Stream a document in pieces of at most 64 KiB. Raises: Rejected, Transient."""
        shown = _without_query(url)
        try:
            with self._outbound.exchange("GET", url, within=self._within, redirects=_MOST_REDIRECTS) as answer:
                self._check(answer, shown)
                yield answer.pieces()
        except NotAllowed as refused:
            raise Rejected(ErrorCode.SOURCE_NOT_ALLOWED, f"{shown} is not fetched: {refused} (sources.*)") from refused
        except Unreachable as error:
            raise Transient(ErrorCode.SOURCE_UNAVAILABLE, f"{shown} was not fetched: {error.trouble}") from error

    def _check(self, answer: Answer, shown: str) -> None:
        status = answer.status
        if status in _LATER or status >= 500:
            raise Transient(ErrorCode.SOURCE_UNAVAILABLE, f"{shown} answered {status}")
        if status in _DENIED:
            raise Rejected(ErrorCode.SOURCE_NOT_ALLOWED, f"{shown} answered {status}: it does not let us read it")
        if status != 200:
            raise Rejected(ErrorCode.SOURCE_NOT_FOUND, f"{shown} answered {status}: there is no document")
        if (answer.size_bytes or 0) > self._max_bytes:
            raise Rejected(
                ErrorCode.FILE_TOO_LARGE,
                f"the file has more than {self._max_bytes} bytes (limits.max_file_bytes): split it up first",
            )


def _without_query(url: str) -> str:
    """Return what may stand in an error: a query may be what opens the document."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
