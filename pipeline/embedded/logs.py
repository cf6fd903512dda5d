"""Log files with a bound: what a supervised process prints, rotated by size."""

from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 10 * 1024**2
KEPT_FILES = 3


class RotatingLog:
    """A log file with older parts beside it, `NAME.log.1` and so on; all together at most `max_bytes * kept`."""

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT_FILES, echo: BinaryIO | None = None
    ) -> None:
        """Args: echo gets all that is written, too."""
        self.path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._echo = echo
        self._stream = path.open("ab", buffering=0)

    def write(self, piece: bytes) -> None:
        """Append, rotating first where it would not fit; a full disk loses lines, not the process that wrote them."""
        try:
            if self._stream.tell() + len(piece) > self._max_bytes:
                self._rotate()
            self._stream.write(piece[-self._max_bytes :])
            if self._echo:
                self._echo.write(piece)
                self._echo.flush()
        except (OSError, ValueError):  # ValueError: a rotation failed before and left the file closed
            return

    def tail(self, lines: int = 20) -> str:
        """Return the last lines, for an error message."""
        with self.path.open("rb") as stream:
            stream.seek(max(0, self.path.stat().st_size - 16_384))
            return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Close the file. Calling twice is safe."""
        self._stream.close()

    def _rotate(self) -> None:
        self._stream.close()
        for number in range(self._kept - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)
        self._stream = self.path.open("wb", buffering=0)
