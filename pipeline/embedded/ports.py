"""Free ports on the loopback interface, the same ones at each start of a home as far as they are free."""

import hashlib
import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"

# Below the ephemeral range of Linux (32768-60999), so that no outgoing connection takes one in between. SeaweedFS puts
# the gRPC side of its admin server at + 10000.
LOWEST, HIGHEST = 20_000, 29_999
ADMIN_GRPC_OFFSET = 10_000


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class PortPicker:
    """Hands out ports, none twice. Somebody else may still take one first: be ready to ask again."""

    def __init__(self, home: Path) -> None:
        # Seeded, so that addresses written down elsewhere (a psql history, a bookmark) survive a restart.
        seed = hashlib.sha256(str(home.resolve()).encode()).digest()
        self._random = random.Random(seed)  # noqa: S311 - spread, not secrecy
        self._given: set[int] = set()

    def pick(self, *, with_offset: int = 0) -> int:
        """Return a free port; with an offset, one where port + offset is free as well. Raises: OSError."""
        for _ in range(2 * (HIGHEST - LOWEST)):
            port = self._random.randint(LOWEST, HIGHEST)
            if port not in self._given and is_free(port) and (not with_offset or is_free(port + with_offset)):
                self._given.add(port)
                return port
        raise OSError(f"no port between {LOWEST} and {HIGHEST} is free on {LOOPBACK}")
