"""Takes the bytes of a document in, from a raw body or a form, and puts them into the store as they come."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from pipeline.adapters.documents.sniff import HEAD_BYTES, media_type_of
from pipeline.api.forms import FormReader
from pipeline.api.problems import ApiCode, Problem, too_many
from pipeline.api.schemas import JobFields, Options
from pipeline.api.uploading import Upload, begun
from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.ports.objects import MultipartUploads

Model = TypeVar("Model", bound=BaseModel)
_OPTION_LISTS = {"format": "formats", "language": "languages"}
"""Fields that stand for lists among the options, one value each."""
_EVENT_FIELD = "callback_event"
_NUMBERS = frozenset({"priority", "dpi"})


class Intake:
    """What a process takes in at the same time."""

    def __init__(self, store: MultipartUploads, *, at_once: int, max_bytes: int) -> None:
        self._store = store
        self._at_once = at_once
        self._max_bytes = max_bytes
        self._open = 0

    def check_size(self, size_bytes: int) -> None:
        """Raises: Rejected, if a document has more bytes than any may have."""
        if size_bytes > self._max_bytes:
            raise Rejected(ErrorCode.FILE_TOO_LARGE, f"the file has more than {self._max_bytes} bytes: split it up")

    @contextlib.asynccontextmanager
    async def upload(self, length: int | None) -> AsyncIterator[Upload]:
        """Begin a document, which is left nothing of if anything goes wrong.

        Args: length is what its sender says of it, if anything. Raises: Problem, Rejected.
        """
        self.check_size(length or 0)
        with self.place():
            upload = Upload(self._store, judge=media_type_of, head_bytes=HEAD_BYTES, max_bytes=self._max_bytes)
            async with begun(upload):
                yield upload

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the places of those that come in at the same time. Raises: Problem, if none is free."""
        if self._open >= self._at_once:
            raise too_many(ApiCode.BUSY, "as many documents as this server takes at once are coming in", after_s=5)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A document that lies in the store."""

    key: str
    fields: JobFields
    file_name: str | None


async def take_body(intake: Intake, request: Request, fields: JobFields) -> Taken:
    """Store the request's body. Raises: Problem, Rejected, Transient."""
    length = request.headers.get("content-length")
    async with intake.upload(int(length) if length else None) as upload:
        async for piece in _body(request):
            await upload.write(piece)
        return Taken(key=await upload.finish(), fields=fields, file_name=None)


async def take_exactly(intake: Intake, request: Request, size_bytes: int) -> bytes:
    """Return the request's body, which is to have so many bytes. Raises: Problem."""
    content = bytearray()
    with intake.place():
        async for piece in _body(request):
            content += piece
            if len(content) > size_bytes:
                break
        if len(content) != size_bytes:
            than = "more" if len(content) > size_bytes else "less"
            raise Problem(422, ApiCode.INVALID_REQUEST, f"the body has {than} than the {size_bytes} bytes that are due")
        return bytes(content)


async def take_form(
    intake: Intake, request: Request, defaults: JobFields, *, check: Callable[[JobFields], None]
) -> Taken:
    """Store the file in a form, whose fields go before the defaults. Raises: Problem, Rejected, Transient."""
    reader = FormReader(request.headers.get("content-type", ""))
    async with intake.upload(None) as upload:
        async for piece in reader.file(_body(request)):
            await upload.write(piece)
        fields = combined(job_fields(reader.form.fields, at="form"), defaults)
        check(fields)
        return Taken(key=await upload.finish(), fields=fields, file_name=_base_name(reader.form.file_name))


def job_fields(given: Iterable[tuple[str, str]], *, at: str) -> JobFields:
    """Return what a query or a form says of a document. Raises: Problem."""
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, value in given:
        if name in _OPTION_LISTS:
            options.setdefault(_OPTION_LISTS[name], []).append(value)
        elif name == _EVENT_FIELD:
            values.setdefault("callback_events", []).append(value)
        else:
            target = options if name in Options.model_fields else values
            if name in target:
                raise Problem(422, ApiCode.INVALID_REQUEST, f"{name} is given twice")
            target[name] = _number(value) if name in _NUMBERS else value
    if at == "query" and "password" in values:
        raise Problem(
            422, ApiCode.INVALID_REQUEST, "a password stands in the body: queries are written down on the way"
        )
    # No `options` of its own: they stand beside the other fields here.
    if "options" in values:
        raise Problem(422, ApiCode.INVALID_REQUEST, "options stand beside the other fields, each by its name")
    return validated(JobFields, values | ({"options": options} if options else {}), at=at)


def validated(model: type[Model], content: Any, *, at: str) -> Model:
    """Return what was sent as a value. Raises: Problem, which names all that is wrong."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        errors = [
            {"at": ".".join([at, *map(str, found["loc"])]), "message": found["msg"]}
            for found in error.errors(include_input=False, include_url=False)
        ]
        raise Problem(422, ApiCode.INVALID_REQUEST, "the request is not as it should be", errors=errors) from error


def combined(fields: JobFields, defaults: JobFields) -> JobFields:
    """Return what was said of a document in one place, and where that is silent, in another."""
    missing = defaults.model_fields_set - fields.model_fields_set - {"options"}
    asked = defaults.options.model_fields_set - fields.options.model_fields_set
    options = fields.options.model_copy(update={name: getattr(defaults.options, name) for name in asked})
    return fields.model_copy(update={name: getattr(defaults, name) for name in missing} | {"options": options})


def _number(text: str) -> float | str:
    """Return the number that a text is; the text itself, for the fields to refuse, where it is none."""
    try:
        return int(text) if text.removeprefix("-").isdecimal() else float(text)
    except ValueError:
        return text


async def _body(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect as gone:
        raise Problem(400, ApiCode.INVALID_REQUEST, "the body ended before its end") from gone


def _base_name(name: str | None) -> str | None:
    """Return what a document is called, of what its sender's system calls its file; never a path."""
    printable = "".join(mark for mark in name or "" if mark.isprintable())
    return printable.replace("\\", "/").rpartition("/")[2][:255] or None
