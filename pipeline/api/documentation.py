"""Parts of the OpenAPI document that can't be read off the code."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pipeline import __version__
from pipeline.api.callers import OPEN_PATHS
from pipeline.api.problems import MEDIA_TYPE
from pipeline.api.schemas import JobFields, Options, ProblemDetails, Source
from pipeline.domain.languages import language_pattern
from pipeline.domain.options import MAX_LANGUAGES, OutputFormat
from pipeline.domain.webhooks import WebhookEvent

_MEANINGS = {
    400: "The request can't be read.",
    401: "No valid key.",
    403: "The key lacks the scope, or may not be used from there.",
    404: "There is nothing by that name, or it is another tenant's.",
    409: "The job is not in a state for that.",
    413: "Too large.",
    415: "Not a document that is read here, or a content type that is not taken.",
    416: "The range lies outside of the result.",
    422: "The request is not as it should be.",
    429: "Too often, too much, or too many at once: see Retry-After.",
    503: "A service that this needs is away: see Retry-After.",
}
_ADDRESS_OF_MODEL = "#/components/schemas/"


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error answers of a route."""
    return {
        status: {
            "description": _MEANINGS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": f"{_ADDRESS_OF_MODEL}ProblemDetails"}}},
        }
        for status in statuses
    }


def answers(good: dict[int | str, dict[str, Any]], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the answers of a route: the good ones, and the error answers."""
    return good | problems(*statuses)


def _properties(*models: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for model in models:
        schema = model.model_json_schema()
        found |= {name: _inlined(part, schema.get("$defs", {})) for name, part in schema["properties"].items()}
    return found


def _inlined(part: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(part, dict):
        if "$ref" in part:
            return _inlined(definitions[part["$ref"].rpartition("/")[2]], definitions)
        return {name: _inlined(value, definitions) for name, value in part.items()}
    return [_inlined(each, definitions) for each in part] if isinstance(part, list) else part


_LISTS = frozenset({"options", "callback_events"})
_FIELDS = {name: part for name, part in _properties(JobFields).items() if name not in _LISTS}
_OPTIONS = _properties(Options)
_FLAT = {**_FIELDS, **{name: part for name, part in _OPTIONS.items() if name not in ("formats", "languages")}}
_REPEATABLE = {
    "format": {"type": "array", "items": {"enum": [form.value for form in OutputFormat]}, "minItems": 1},
    "language": {
        "type": "array",
        "items": {"type": "string", "pattern": language_pattern()},
        "maxItems": MAX_LANGUAGES,
    },
    "callback_event": {"type": "array", "items": {"enum": [event.value for event in WebhookEvent]}, "minItems": 1},
}


def _not_null(part: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema for places where leaving it out is the only way to say nothing."""
    choices = [choice for choice in part.get("anyOf", []) if choice.get("type") != "null"]
    rest = {name: value for name, value in part.items() if name not in ("anyOf", "default", "title")}
    return rest | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})


_PLAIN = {name: _not_null(part) for name, part in _FLAT.items()}
_IN_QUERY = {name: part for name, part in _PLAIN.items() if name != "password"}

SUBMISSION: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "required": False, "schema": part}
        for name, part in {**_IN_QUERY, **_REPEATABLE}.items()
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _inlined(Source.model_json_schema(), Source.model_json_schema()["$defs"])},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}, **_PLAIN, **_REPEATABLE},
                    "additionalProperties": False,
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    },
}


def document(app: FastAPI) -> None:
    """Let the application describe itself with its problems and its keys."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(
                title=app.title, version=__version__, description=app.description, routes=app.routes
            )
            parts = described.setdefault("components", {})
            parts.setdefault("schemas", {})["ProblemDetails"] = ProblemDetails.model_json_schema()
            parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            for path, operations in described["paths"].items():
                if path not in OPEN_PATHS:
                    for operation in operations.values():
                        operation["security"] = [{"key": []}]
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]
