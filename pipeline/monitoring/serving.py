"""What a process says of itself by HTTP, on a port of its own: `/metrics`, `/livez` and `/readyz`."""

import os
import shutil
import socketserver
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from pipeline.settings import MetricsSettings, SettingsError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names where processes that are served together keep their counts; read by prometheus_client as it is loaded."""


def shared_folder(metrics: MetricsSettings, folder: Path) -> None:
    """Have this process and its children count into one folder if it serves metrics and nobody did that for it."""
    if not metrics.port or FOLDER_VARIABLE in os.environ:
        return
    os.environ[FOLDER_VARIABLE] = str(empty_folder(folder))


def empty_folder(folder: Path) -> Path:
    """Return the folder, with nothing in it: counters begin at zero with their process, as Prometheus expects."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    return folder


class Beat:
    """Remembers when something that has to happen all the time last happened."""

    def __init__(self, what: str, *, within: timedelta) -> None:
        self._what = what
        self._within = within
        self._last: float | None = None

    def __call__(self, **_: Any) -> None:
        """Say that it has just happened."""
        self._last = time.monotonic()

    def problem(self) -> str | None:
        """Return why the process is not ready, if it is not."""
        if self._last is None:
            return f"{self._what} has not begun"
        age = time.monotonic() - self._last
        return None if age < self._within.total_seconds() else f"{self._what} stands still for {age:.0f} s"


class MetricsServer:
    """The port, bound at once so that one that is taken is found out before any work; served from `start` on."""

    def __init__(self, metrics: MetricsSettings, problem: Callable[[], str | None] = lambda: None) -> None:
        """Args: problem says why the process is not ready. Raises: SettingsError, if the port can't be had."""
        self._problem = problem
        self._server: _Server | None = None
        if metrics.port:
            try:
                self._server = _Server((metrics.host, metrics.port), _Silent)
            except OSError as error:
                raise SettingsError(
                    f"metrics.port: {metrics.host}:{metrics.port} can't be had ({error.strerror}):"
                    " name a free one, or 0 for none"
                ) from error

    def start(self, *, counts: "CollectorRegistry | None" = None, rows: "CollectorRegistry | None" = None) -> None:
        """Serve what is counted here, or in the shared folder, what rows say, and what is known of this process."""
        if self._server is None:
            return
        # Only now: the folder is named by then, which the library asks for once.
        from pipeline.monitoring.application import Application  # noqa: PLC0415

        self._server.set_app(Application(counts, rows, self._problem))
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Let go of the port; for children that were forked with it."""
        if self._server is not None:
            self._server.server_close()


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self) -> None:
        # The library's looks up the host's name, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[0], self.server_address[1]  # type: ignore[assignment]
        self.setup_environ()


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature is theirs
        """Leave scrapes out of the log."""
