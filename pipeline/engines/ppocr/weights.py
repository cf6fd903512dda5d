"""The PP-OCRv6 small networks that lie inside the rapidocr wheel, found and checked without importing it.

Nothing here or beside it can download: rapidocr's own loader fetches a file that is missing or has other content, so
it is never called.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pipeline.domain.errors import ErrorCode, Transient

RELEASE = "3.10"
DETECTOR = "PP-OCRv6_det_small.onnx"
RECOGNISER = "PP-OCRv6_rec_small.onnx"
SHA256: Mapping[str, str] = {
    DETECTOR: "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    RECOGNISER: "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
}
"""Of the files in rapidocr 3.10.0."""
REVISION = f"ppocrv6-small-det.{SHA256[DETECTOR][:8]}-rec.{SHA256[RECOGNISER][:8]}"
"""A short name of exactly this content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Files whose content is the one that everything here was measured with."""

    detector: Path
    recogniser: Path


def installed_folder() -> Path:
    """Return where the wheel keeps its networks. Raises: Transient (`engine_unavailable`)."""
    spec = find_spec("rapidocr")
    if spec is None or not spec.submodule_search_locations:
        raise _unavailable("the package rapidocr is not installed")
    return Path(spec.submodule_search_locations[0]) / "models"


def verified_weights(folder: Path) -> Weights:
    """Return the networks in a folder, each read once to check it. Raises: Transient (`engine_unavailable`)."""
    for name, expected in SHA256.items():
        path = folder / name
        if not path.is_file():
            raise _unavailable(f"{path} is missing")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected:
            raise _unavailable(f"{path} has sha256 {found}, expected {expected}")
    return Weights(detector=folder / DETECTOR, recogniser=folder / RECOGNISER)


def _unavailable(what: str) -> Transient:
    cure = f"install the weights again: pip install --force-reinstall --no-deps 'rapidocr=={RELEASE}.*'"
    return Transient(ErrorCode.ENGINE_UNAVAILABLE, f"{what}; {cure}")
