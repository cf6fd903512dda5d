"""What is known of a corpus: texts beside the files, and a manifest where there is one.

`NAME.gt.txt` is the text of a file's only page, `NAME.pN.gt.txt` that of page N, counted from 1. `manifest.jsonl` adds,
a JSON object a line: `file`, `class`, and under `expect` the `outcome` (ok, partial, rejected), `also_acceptable` ones,
`pages` and `blank_pages`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

MANIFEST = "manifest.jsonl"
_TRUTH = re.compile(r"(?P<file>.+?)(?:\.p(?P<page>[1-9]\d*))?\.gt\.txt")


class CorpusError(Exception):
    """The folder is no corpus, or its manifest has a line that can't be understood."""


class Expected(BaseModel):
    """What should become of a document."""

    outcome: str | None = None
    also_acceptable: list[str] = Field(default_factory=list)
    pages: int | None = None
    blank_pages: list[int] | None = None


class Known(BaseModel):
    """One document of a corpus."""

    file: str | None
    kind: str = Field(default="document", alias="class")
    expect: Expected = Field(default_factory=Expected)
    truths: dict[int, str] = Field(default_factory=dict)
    """Page number to text."""


def read_corpus(folder: Path, only: str = "") -> list[Known]:
    """Return the documents of a folder whose names begin so, in the manifest's order, else by name.

    Raises: CorpusError.
    """
    truths = _truths(folder)
    manifest = folder / MANIFEST
    known = list(_from_manifest(manifest)) if manifest.exists() else [Known(file=name) for name in sorted(truths)]
    for document in known:
        document.truths = dict(truths.get(document.file or "", {}))
    found = [document for document in known if document.file and document.file.startswith(only)]
    if absent := [document.file for document in found if not (folder / str(document.file)).is_file()]:
        raise CorpusError(f"{folder} lacks {absent[0]}, which {MANIFEST} or a text beside it names")
    if not found:
        raise CorpusError(f"{folder} has no document with a text beside it (NAME.gt.txt) and no {MANIFEST}")
    return found


def _truths(folder: Path) -> Mapping[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for path in folder.glob("*.gt.txt"):
        if named := _TRUTH.fullmatch(path.name):
            pages = found.setdefault(named["file"], {})
            pages[int(named["page"] or 1)] = path.read_text(encoding="utf-8")
    return found


def _from_manifest(path: Path) -> Iterator[Known]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                yield Known.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise CorpusError(f"{path}, line {number}: {where}: {first['msg']}") from None
