"""A server that speaks as much of the hub's protocol as the fetching of a commit needs, over files of a folder."""

import hashlib
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

COMMIT = "5e" * 20
NAME = "museum/tiny-model"


@dataclass
class Hub:
    """One repository at one commit, and what goes wrong with it."""

    folder: Path
    cut: str | None = None
    """The file of which only half is sent, each time."""
    missing: bool = False
    """Whether there is no such commit."""
    silent: bool = False
    """Whether requests get no answer."""
    asked: list[str] = field(default_factory=list)
    """Method and path of each request."""
    closing: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def tree(self) -> bytes:
        """Return what the repository holds, as `/api/models/.../tree` lists it."""
        files = [
            {
                "type": "file",
                "path": path.name,
                "size": path.stat().st_size,
                "oid": hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest(),
            }
            for path in sorted(self.folder.iterdir())
        ]
        return json.dumps(files).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        path = urlsplit(self.path).path
        self.hub.asked.append(f"{self.command} {path}")
        if self.hub.silent:
            self.hub.closing.wait(60)
            self.close_connection = True
        elif path == f"/api/models/{NAME}/tree/{COMMIT}" and not self.hub.missing:
            self._send(200, self.hub.tree(), {"Content-Type": "application/json"})
        elif path.startswith(f"/{NAME}/resolve/{COMMIT}/") and not self.hub.missing:
            self._send_file(path.rpartition("/")[2])
        else:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})

    def _send_file(self, name):
        content = (self.hub.folder / name).read_bytes()
        begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        self._send(206 if begin else 200, content[begin:], headers, share=0.5 if name == self.hub.cut else 1.0)

    def _send(self, status, body, headers, *, share=1.0):
        self.send_response(status)
        for header, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: int(len(body) * share)])
        self.close_connection = share < 1

    def log_message(self, *_):
        pass


@contextmanager
def serving(folder: Path, **faults):
    """Serve a folder as the repository `NAME` at `COMMIT`."""
    hub = Hub(folder, **faults)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        hub.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
