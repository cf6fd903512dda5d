"""Requests by HTTP that others ask us to make: each goes to an address that was checked, and ends in bounded time.

A name is resolved once for each request and the connection goes to the very address that was checked: a name that
means another address a moment later leads nowhere else. TLS still verifies the name.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Self
from urllib.parse import urljoin

import structlog

from pipeline import __version__
from pipeline.domain.web import NotAllowed, Target, WebRules, parse_target

log = structlog.get_logger()
Resolve = Callable[[str, int], Sequence[str]]
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PIECE_BYTES = 64 * 1024
_ADDRESSES_TRIED = 4


class Trouble(StrEnum):
    """Why no whole answer came."""

    NAME_UNKNOWN = "name_unknown"
    NOT_CONNECTED = "not_connected"
    TLS_FAILED = "tls_failed"
    TIMED_OUT = "timed_out"
    CUT_SHORT = "cut_short"


class Unreachable(Exception):
    """No whole answer came; a later request may fare better."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble)
        self.trouble = trouble


def addresses_of(host: str, port: int) -> list[str]:
    """Return the IP addresses of a name, as the system resolves it. Raises: OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says; its body is read at most once, and only while the exchange is open."""

    status: int
    size_bytes: int | None
    """How long the server says that the body is, if it does."""
    _response: http.client.HTTPResponse
    _deadline: "_Deadline"

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raises: Unreachable, if it ends early or takes too long."""
        left = self.size_bytes
        while left is None or left > 0:
            with _translated(self._deadline):
                piece = self._response.read1(_PIECE_BYTES if left is None else min(_PIECE_BYTES, left))
            if not piece:
                break
            left = None if left is None else left - len(piece)
            yield piece
        # Being cut looks like the end to whoever reads.
        if self._deadline.has_passed:
            raise Unreachable(Trouble.TIMED_OUT)
        if left:
            raise Unreachable(Trouble.CUT_SHORT)


class Outbound:
    """Makes requests within the rules; no proxy is asked, whatever the environment says. Safe to share by threads."""

    def __init__(
        self,
        rules: WebRules,
        *,
        silence: timedelta,
        resolve: Resolve = addresses_of,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Args: silence is how long a server may take to accept, or to send the next bytes; tls is what is trusted."""
        self._rules = rules
        self._silence_s = silence.total_seconds()
        self._resolve = resolve
        self._tls = tls or ssl.create_default_context()

    @contextlib.contextmanager
    def exchange(
        self,
        method: str,
        url: str,
        *,
        within: timedelta,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        redirects: int = 0,
    ) -> Iterator[Answer]:
        """Ask, and give the answer; so many redirects are followed, each checked like the first URL.

        Args: within bounds the whole exchange, body included. Raises: NotAllowed; Unreachable.
        """
        target = parse_target(url, self._rules)
        with _Deadline(within) as deadline, contextlib.ExitStack() as opened:
            for _ in range(redirects + 1):
                connection = opened.enter_context(contextlib.closing(self._connection(target, deadline)))
                with _translated(deadline):
                    connection.request(method, target.path, body=body, headers=_headers(headers))
                    response = opened.enter_context(connection.getresponse())
                location = response.getheader("Location") if response.status in _REDIRECTS else None
                if location is None or not redirects:
                    yield Answer(response.status, response.length, response, deadline)
                    return
                target = parse_target(_joined(target, location), self._rules)
        raise NotAllowed(f"it redirects more than {redirects} times")

    def _connection(self, target: Target, deadline: "_Deadline") -> http.client.HTTPConnection:
        connected = self._connect(target, deadline)
        try:
            deadline.watch(connected)
            connected.settimeout(self._silence_s)
            if target.scheme == "http":
                connection = http.client.HTTPConnection(target.host, target.port)
                connection.sock = connected
            else:
                connection = http.client.HTTPSConnection(target.host, target.port, context=self._tls)
                with _translated(deadline):
                    connection.sock = self._tls.wrap_socket(connected, server_hostname=target.host)
        except BaseException:
            connected.close()
            raise
        connection.auto_open = 0  # it goes nowhere but over the socket that it was given
        return connection

    def _connect(self, target: Target, deadline: "_Deadline") -> socket.socket:
        trouble = Trouble.NOT_CONNECTED
        for address in self._checked(target):
            try:
                return socket.create_connection((address, target.port), timeout=min(self._silence_s, deadline.left_s()))
            except OSError as error:
                trouble = Trouble.TIMED_OUT if isinstance(error, TimeoutError) else Trouble.NOT_CONNECTED
        raise Unreachable(trouble)

    def _checked(self, target: Target) -> Sequence[str]:
        """Return the addresses of the target, all of which are allowed."""
        try:
            addresses = self._resolve(target.host, target.port)
        except (OSError, ValueError) as error:  # ValueError: what can't be a name, to its codec
            raise Unreachable(Trouble.NAME_UNKNOWN) from error
        for address in addresses:
            if not self._rules.allow_address(address):
                # What the name means inside of our network is nobody's business who asks from outside.
                log.warning("address_not_allowed", host=target.host, address=address)
                raise NotAllowed(f"the host {target.host} has an address that is not allowed")
        return addresses[:_ADDRESSES_TRIED]


class _Deadline:
    """Cuts the connection when the time is over. A timeout of a socket bounds silence, and who drips is not silent."""

    def __init__(self, within: timedelta) -> None:
        self.has_passed = False
        self._ends_at = time.monotonic() + within.total_seconds()
        self._watched: list[socket.socket] = []
        self._timer = threading.Timer(within.total_seconds(), self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for watched in self._watched:
            watched.close()

    def left_s(self) -> float:
        """Return how long it may still take, above zero. Raises: Unreachable, if the time is over."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise Unreachable(Trouble.TIMED_OUT)
        return left

    def watch(self, connected: socket.socket) -> None:
        """Cut this one, too. Raises: Unreachable, if the time is over already."""
        # A duplicate: TLS takes the socket itself over, and shutting down either ends both.
        self._watched.append(connected.dup())
        if self.has_passed:
            raise Unreachable(Trouble.TIMED_OUT)

    def _cut(self) -> None:
        self.has_passed = True
        for watched in list(self._watched):
            with contextlib.suppress(OSError):
                watched.shutdown(socket.SHUT_RDWR)


def _joined(target: Target, location: str) -> str:
    """Return where a redirect leads. Raises: NotAllowed."""
    try:
        return urljoin(target.url, location)
    except ValueError:
        raise NotAllowed("it redirects to a URL that is malformed") from None


@contextlib.contextmanager
def _translated(deadline: _Deadline) -> Iterator[None]:
    """Turn the errors of sockets, TLS and HTTP into ours."""
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(_trouble(error, deadline)) from error


def _trouble(error: Exception, deadline: _Deadline) -> Trouble:
    if deadline.has_passed or isinstance(error, TimeoutError):
        return Trouble.TIMED_OUT
    return Trouble.TLS_FAILED if isinstance(error, ssl.SSLError) else Trouble.CUT_SHORT


def _headers(given: Mapping[str, str] | None) -> dict[str, str]:
    # Nothing is unpacked on the way: what is counted is what comes.
    ours = {"User-Agent": f"muniment/{__version__}", "Accept-Encoding": "identity", "Connection": "close"}
    return ours | dict(given or {})
