"""Files that hold secrets: never readable by others, never seen half-written."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner can enter; parents as the system makes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, mode 0600."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_private_json(path: Path, content: Any) -> None:
    """Replace a JSON file in one step, mode 0600."""
    write_private(path, json.dumps(content, indent=2) + "\n")
