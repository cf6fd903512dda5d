"""Forms with a file in them, read as they come: the file goes on at once, only the fields are kept."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from pipeline.api.problems import ApiCode, Problem

_MAX_FIELD_BYTES = 64 * 1024
_MAX_PARTS = 64
FILE_FIELD = b"file"


@dataclass(slots=True)
class Form:
    """What has come of a form (RFC 7578)."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    file_name: str | None = None
    has_file: bool = False


class FormReader:
    """Splits a body of `multipart/form-data`."""

    def __init__(self, content_type: str) -> None:
        """Raises: Problem, if no boundary is named."""
        kind, parameters = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not parameters.get(b"boundary"):
            raise Problem(415, ApiCode.UNSUPPORTED_MEDIA_TYPE, "a form is multipart/form-data with a boundary")
        self.form = Form()
        self._parser = MultipartParser(
            parameters[b"boundary"],
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._whole,
            },
        )
        self._parts = 0
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._is_file = False
        self._name = ""
        self._value = bytearray()
        self._of_file: list[bytes] = []
        self._is_whole = False

    async def file(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the file's bytes as they come; the fields are known when it ends. Raises: Problem."""
        try:
            async for piece in body:
                self._parser.write(piece)
                for data in self._of_file:
                    yield data
                self._of_file.clear()
            self._parser.finalize()
        except MultipartParseError as error:
            raise Problem(422, ApiCode.INVALID_REQUEST, "the form is malformed") from error
        if not self._is_whole:
            raise Problem(422, ApiCode.INVALID_REQUEST, "the form is cut short")
        if not self.form.has_file:
            raise Problem(422, ApiCode.INVALID_REQUEST, "the form has no part `file`")

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise Problem(422, ApiCode.INVALID_REQUEST, f"the form has more than {_MAX_PARTS} parts")
        self._disposition, self._value = b"", bytearray()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header[0].extend(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1].extend(data[start:end])

    def _header_end(self) -> None:
        if self._header[0].lower() == b"content-disposition":
            self._disposition = bytes(self._header[1])
        self._header = (bytearray(), bytearray())

    def _headers_end(self) -> None:
        _, parameters = parse_options_header(self._disposition)
        name = parameters.get(b"name", b"")
        self._is_file = name == FILE_FIELD
        self._name = name.decode("utf-8", "replace")
        if self._is_file:
            if self.form.has_file:
                raise Problem(422, ApiCode.INVALID_REQUEST, "the form has two parts `file`")
            self.form.has_file = True
            self.form.file_name = parameters.get(b"filename", b"").decode("utf-8", "replace") or None

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._of_file.append(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > _MAX_FIELD_BYTES:
            raise Problem(413, ApiCode.REQUEST_TOO_LARGE, "a field of the form is too long")

    def _end(self) -> None:
        if not self._is_file:
            self.form.fields.append((self._name, self._value.decode("utf-8", "replace")))

    def _whole(self) -> None:
        self._is_whole = True
