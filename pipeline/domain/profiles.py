"""How much trouble is taken over a document: one word for resolution, what a network sees, and which networks read."""

from enum import StrEnum


class Profile(StrEnum):
    """What a submitter trades for what."""

    FAST = "fast"
    """Many pages in little time, with more errors."""
    BALANCED = "balanced"
    ACCURATE = "accurate"
    """Small print, whatever it takes."""

    @property
    def finest_scan_dpi(self) -> float:
        """Return what finer scans are rendered at.

        At 300 body text is 40 to 50 pixels high, which is what recognisers see; print of half that size needs more.
        """
        return {Profile.FAST: 200.0, Profile.BALANCED: 300.0, Profile.ACCURATE: 400.0}[self]
