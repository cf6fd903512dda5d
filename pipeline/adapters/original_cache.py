"""Originals on local disk while chunks of them are read: a bounded folder of temporary files."""

import shutil
from pathlib import Path

from pipeline.domain import keys
from pipeline.ports.objects import ObjectStore


class OriginalCache:
    """Keeps the originals last used, up to a number of bytes. Not safe for two processes on one folder."""

    def __init__(self, folder: Path, objects: ObjectStore, *, max_bytes: int) -> None:
        self._folder = folder
        self._objects = objects
        self._max_bytes = max_bytes
        # What an earlier process left behind may be half a file.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)

    def path(self, sha256: str, size_bytes: int) -> Path:
        """Return a local copy, which stays until others need the room. Raises: Rejected (`source_not_found`)."""
        path = self._folder / sha256
        if not path.exists():
            self._make_room(size_bytes)
            partial = path.with_suffix(".partial")
            with self._objects.get(keys.original(sha256)) as pieces, partial.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
            partial.rename(path)
        path.touch()
        return path

    def _make_room(self, size_bytes: int) -> None:
        files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        used = sum(file.stat().st_size for file in files)
        for file in files:
            if used + size_bytes <= self._max_bytes:
                return
            used -= file.stat().st_size
            file.unlink()
