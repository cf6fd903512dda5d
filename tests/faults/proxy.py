"""A TCP proxy between the product and a real server; its rule says what becomes of each piece that passes."""

import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline.embedded.ports import LOOPBACK, PortPicker

_PIECE_BYTES = 65536


class Link:
    """One connection: the client's side and the server's."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server

    def cut(self) -> None:
        """End it for both; what has not been passed on is lost."""
        for side in (self.client, self.server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


class Rule:
    """What becomes of the pieces that pass; this one passes them on."""

    def said(self, link: Link, piece: bytes) -> None:
        """The client sent a piece."""
        link.server.sendall(piece)

    def answered(self, link: Link, piece: bytes) -> None:
        """The server sent a piece."""
        link.client.sendall(piece)


PASS_ON = Rule()


class Proxy:
    """Listens at an address of its own for as long as it is entered."""

    def __init__(self, host: str, port: int, *, folder: Path) -> None:
        self._upstream = (host, port)
        self.port = PortPicker(folder / "proxy").pick()
        self.address = f"{LOOPBACK}:{self.port}"
        self.rule = PASS_ON
        self._links: set[Link] = set()
        self._listener: _Listener | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Take connections."""
        self._listener = _Listener((LOOPBACK, self.port), self._serve)
        threading.Thread(target=self._listener.serve_forever, args=(0.05,), name="proxy", daemon=True).start()

    def close(self) -> None:
        """Refuse connections, and cut those that there are: the server is down."""
        listener, self._listener = self._listener, None
        if listener:
            listener.shutdown()
            listener.server_close()
        for link in list(self._links):
            link.cut()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._upstream) as server:
            link = Link(client, server)
            self._links.add(link)
            try:
                answers = threading.Thread(target=self._pump, args=(link, server, self._answered), daemon=True)
                answers.start()
                self._pump(link, client, self._said)
                answers.join()
            finally:
                self._links.discard(link)

    # Looked up for each piece, so that a rule holds for connections that are open already.
    def _said(self, link: Link, piece: bytes) -> None:
        self.rule.said(link, piece)

    def _answered(self, link: Link, piece: bytes) -> None:
        self.rule.answered(link, piece)

    def _pump(self, link: Link, source: socket.socket, act: Callable[[Link, bytes], None]) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                act(link, piece)
        link.cut()


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        super().__init__(address, socketserver.BaseRequestHandler)

    def finish_request(self, request: "socket.socket | tuple[bytes, socket.socket]", client_address: object) -> None:
        assert isinstance(request, socket.socket)
        with suppress(OSError):
            self._serve(request)
