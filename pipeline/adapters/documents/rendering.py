"""Renders pages ahead of their recognition, in a child process as inspection does and for the same reason."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from pipeline.adapters.documents.bounds import Bounds, bind, child_environment
from pipeline.domain.password import Password
from pipeline.ports.documents import DocumentLimits


class BoundedRenderer:
    """Renders in a fresh child for each call; safe to share between threads."""

    def __init__(self, limits: DocumentLimits, *, timeout: timedelta, max_memory_bytes: int) -> None:
        self._limits = limits
        self._timeout = timeout
        self._max_memory_bytes = max_memory_bytes

    def render(
        self, path: Path, numbers: Iterable[int], dpi: float | None, password: Password | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield each page's number and its image as PNG; pages that can't be rendered, or not in time, are left out."""
        with tempfile.TemporaryDirectory(prefix="muniment-rendering-", ignore_cleanup_errors=True) as folder:
            order = {
                "path": str(path.absolute()),
                "folder": folder,
                "limits": asdict(self._limits),
                "numbers": list(numbers),
                "dpi": dpi,
                "password": password.reveal if password else None,
                "bounds": asdict(Bounds.until(self._timeout, max_memory_bytes=self._max_memory_bytes)),
            }
            child = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(folder),
                start_new_session=True,
            )
            try:
                output, _ = child.communicate(json.dumps(order).encode(), timeout=self._timeout.total_seconds())
            except subprocess.TimeoutExpired:
                output = b""
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
            for line in output.split():
                image = Path(folder) / f"{int(line)}.png"
                yield int(line), image.read_bytes()
                image.unlink()


def _main() -> int:
    """Be the child: write each page to a file, then say its number."""
    order: dict[str, Any] = json.load(sys.stdin)
    bind(Bounds(**order["bounds"]))
    from pipeline.adapters.documents.opener import FileOpener  # noqa: PLC0415 - only after the limits are set
    from pipeline.adapters.rendered_pages import encode_page_image  # noqa: PLC0415
    from pipeline.domain.errors import RecognitionFailed  # noqa: PLC0415

    password = Password(order["password"]) if order["password"] else None
    with FileOpener(DocumentLimits(**order["limits"])).open(Path(order["path"]), password=password) as document:
        for number in order["numbers"]:
            try:
                image = document.render(number, dpi=order["dpi"])
            except RecognitionFailed:
                continue
            (Path(order["folder"]) / f"{number}.png").write_bytes(encode_page_image(image))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(_main())
