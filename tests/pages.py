"""Real and made pages for tests of what looks at pixels."""

import unicodedata
from pathlib import Path

import cv2
import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from pipeline.adapters.documents.opener import FileOpener
from pipeline.ports.documents import PageImage, Pixels
from pipeline.settings import LimitSettings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
SAMPLE = ROOT / "samples" / "harbour-ledger.pdf"


def shared(name: str) -> Path:
    """Return a file of the shared documents; without them the test is skipped."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"no shared documents beside the repository (../shared/{name})")
    return path


def rendered(path: Path, number: int = 1, *, dpi: float | None = None) -> PageImage:
    with FileOpener(LimitSettings().for_documents()).open(path) as document:
        return document.render(number, dpi=dpi)


def paper(height: int = 2339, width: int = 1654, *, shade: int = 250) -> Pixels:
    return np.full((height, width, 3), shade, np.uint8)


def with_text(pixels: Pixels, text: str, x: int, y: int, *, scale: float = 1.2, ink: int = 20) -> Pixels:
    cv2.putText(pixels, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, scale, (ink, ink, ink), 2, cv2.LINE_AA)
    return pixels


def image(pixels: Pixels, number: int = 1) -> PageImage:
    return PageImage(number=number, pixels=pixels, dpi=200)


def error_rate(found: str, truth: str) -> float:
    """Return the share of wrong characters, white space and the kind of quotation marks apart."""

    def folded(text: str) -> str:
        kept = "".join(unicodedata.normalize("NFKC", text).replace("’", "'").split())
        return kept.replace("“", '"').replace("”", '"')

    return Levenshtein.distance(folded(found), folded(truth)) / max(1, len(folded(truth)))
