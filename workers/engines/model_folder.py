"""Where the files of a model lie on this host, and whether they are the ones that were meant. Knows no torch."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.domain.errors import ErrorCode, Transient

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_DIGESTED = frozenset({".safetensors", ".json", ".jinja", ".model"})
"""Weights, configurations, and what belongs to a tokenizer."""
_WANTED = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]
"""Of a repository: no code, and no weights in pickles, which are code too."""
_WAITS = ("connect", "read", "write", "pool")
"""What an HTTP client may wait for."""


class ModelSource(BaseModel):
    """What the settings may say of where a model is to be had."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    """A folder as `save_pretrained` writes it, or `owner/name` of the hub."""
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """The commit, for one of the hub; branches move."""
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{12,64}$")
    """What its files must have, or the beginning of that: the characters behind its name in `muniment devices`."""
    online: bool = False
    """Fetch it from the hub where it is not in this host's cache; otherwise nothing is asked of anybody."""


def located(source: ModelSource) -> Path:
    """Return the folder. Raises: Transient (`engine_unavailable`), which says what to do, if it is not on this host."""
    folder = Path(source.model).expanduser()
    if (folder / "config.json").is_file():
        return folder
    if folder.is_dir() or folder.is_absolute() or not _HUB_ID.fullmatch(source.model):
        raise _absent(f"{source.model} is not the folder of a model: it has no config.json")
    if source.revision is None:
        raise _absent(
            f"{source.model} is not on this host: set the option `model` to a folder that has it, or `revision` to the"
            " commit of the hub that is to be used"
        )
    return _cached(source)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of a model on this host."""

    folder: Path
    digest: str
    """Of all of them, in hexadecimal."""


def fetched(source: ModelSource) -> ModelFiles:
    """Return the files, having fetched what is not there if that is allowed; their digest is the one that is asked for.

    Raises: Transient (`engine_unavailable`); OSError, if they can't be read.
    """
    if source.online and source.revision and not Path(source.model).exists():
        _fetch(source)
    folder = located(source)
    digest = digest_of(folder)
    if source.digest and not digest.startswith(source.digest):
        raise _absent(
            f"the files in {folder} have the digest {digest}, not {source.digest}: they are others than meant"
        )
    return ModelFiles(folder=folder, digest=digest)


def digest_of(folder: Path) -> str:
    """Return the hash of all weights and of what says how to use them; reads every byte. Raises: OSError."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in _DIGESTED):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _cached(source: ModelSource) -> Path:
    # Only here, as in `_fetch`: it comes with the extra, and asks the environment whether it may go online.
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import IncompleteSnapshotError, LocalEntryNotFoundError  # noqa: PLC0415

    try:
        found = snapshot_download(source.model, revision=source.revision, allow_patterns=_WANTED, local_files_only=True)
    except LocalEntryNotFoundError as error:
        how = "not whole in" if isinstance(error, IncompleteSnapshotError) else "not in"
        raise _absent(
            f"{source.model} at {source.revision} is {how} the cache of this host: fetch it there once with"
            f" `hf download {source.model} --revision {source.revision}`, or set the option `online`"
        ) from error
    return Path(found)


def _fetch(source: ModelSource) -> None:
    from huggingface_hub import constants, get_session, snapshot_download  # noqa: PLC0415

    def bounded(request: Any) -> None:
        given = {name: limit for name, limit in request.extensions.get("timeout", {}).items() if limit is not None}
        request.extensions["timeout"] = dict.fromkeys(_WAITS, constants.HF_HUB_DOWNLOAD_TIMEOUT) | given

    session = get_session()
    # For the list of files its own client would wait for ever.
    session.event_hooks = {**session.event_hooks, "request": [*session.event_hooks["request"], bounded]}
    try:
        snapshot_download(source.model, revision=source.revision, allow_patterns=_WANTED)
    except Exception as error:  # those of its HTTP library are none of its own
        raise _absent(f"{source.model} can't be fetched: {type(error).__name__}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _absent(message: str) -> Transient:
    return Transient(ErrorCode.ENGINE_UNAVAILABLE, message)
