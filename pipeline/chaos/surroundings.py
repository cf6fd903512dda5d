"""What the processes of a drill are told: an engine that reads nothing, short times, small chunks."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from pipeline.chaos.documents import SIMULATED_SIZES

CHUNK_LEASE = timedelta(seconds=6)
SHORT_TIMES: Mapping[str, str] = {
    "MUNIMENT_LEASES__CHUNK": f"{CHUNK_LEASE.total_seconds():g}",
    "MUNIMENT_LEASES__STEP": "15",
    "MUNIMENT_LEASES__DEVICE": "9",
    # A put that comes while the embedded store starts may hang for 19 s (SeaweedFS 4.48).
    "MUNIMENT_LEASES__STALL": "22",
    "MUNIMENT_LEASES__RESEND": "10",
    "MUNIMENT_DISPATCHER__SWEEP": "0.5",
    "MUNIMENT_DISPATCHER__POLL": "0.5",
}
"""Set for a drill, so that what takes minutes by default is seen within seconds."""
_SMALL_CHUNKS = {"MUNIMENT_CHUNKS__MAX_PAGES": "6", "MUNIMENT_CHUNKS__FLUSH_PAGES": "2"}
_PAGE_MS = 80


def journal(home: Path) -> Path:
    """Return where the engine writes down which process begins a page."""
    return home / "journal"


def gate(home: Path) -> Path:
    """Return the file that the engine's pages wait for."""
    return home / "gate"


@contextmanager
def environment(home: Path, *, slots: int) -> Iterator[None]:
    """Set what the processes of a drill are told, and nothing that the user's own system is told."""
    before = dict(os.environ)
    temporary = home / "tmp"
    temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {"journal": str(journal(home)), "gate": str(gate(home))}
    simulation = {"page_ms": _PAGE_MS, "sizes": dict(SIMULATED_SIZES), **files}
    try:
        for name in before:
            if name.upper().startswith("MUNIMENT_"):
                del os.environ[name]
        os.environ |= {
            "MUNIMENT_HOME": str(home),
            "MUNIMENT_CONFIG": os.devnull,
            "MUNIMENT_DEVICES__ENGINE": "simulated",
            "MUNIMENT_DEVICES__CPU_SLOTS": str(slots),
            "MUNIMENT_DEVICES__TEMPORARY_FOLDER": str(home / "runners"),
            "MUNIMENT_SIMULATED": json.dumps(simulation),
            # What killed processes leave behind goes with the home.
            "TMPDIR": str(temporary),
            **SHORT_TIMES,
            **_SMALL_CHUNKS,
        }
        yield
    finally:
        os.environ.clear()
        os.environ |= before
