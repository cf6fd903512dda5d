"""The published JSON Schemas of what Muniment writes."""

import json
from importlib.resources import files
from typing import Any


def document_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of `document.json`, version 1.2."""
    schema: dict[str, Any] = json.loads(files(__name__).joinpath("document.schema.json").read_text(encoding="utf-8"))
    return schema
