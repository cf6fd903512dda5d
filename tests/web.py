"""Web servers whose answers a test writes, and names that mean what a test says."""

import contextlib
import ssl
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# A certificate of the name archive.test, signed by itself, and its key, which is for tests only.
CERTIFICATE = Path(__file__).parent / "fixtures" / "archive.test.pem"


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: dict
    body: bytes


class WebServer:
    """A server on loopback. `answer` writes what it says, given the handler of the request."""

    def __init__(self, answer, *, address="127.0.0.1", port=0, tls=False):
        self.answer = answer
        self.asked = []
        self.stopping = threading.Event()
        self._server = _Server((address, port), _handler(self))
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://{address}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_):
        """Say nothing: who asks may well hang up."""


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.asked.append(Asked(self.command, self.path, dict(self.headers.items()), body))
            with contextlib.suppress(ConnectionError):
                server.answer(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            """Say nothing."""

        def drip(self, piece, every_s=0.05):
            """Send the same bytes for as long as somebody listens."""
            with contextlib.suppress(OSError):
                while not server.stopping.wait(every_s):
                    self.wfile.write(piece)
                    self.wfile.flush()

    return Handler


def says(status=200, body=b"", **headers):
    """Answer always so."""

    def answer(handler):
        handler.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


class Names:
    """What names mean; of several meanings each is given once, the last one for ever."""

    def __init__(self, **meanings):
        self._meanings = {name.replace("_", "."): list(addresses) for name, addresses in meanings.items()}
        self.asked = []

    def __call__(self, host, port):
        self.asked.append(host)
        meanings = self._meanings[host]
        return meanings.pop(0) if len(meanings) > 1 else meanings[0]
