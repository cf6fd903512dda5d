"""What a submitter may ask for with a document, read from the job row's `options` and judged all at once."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.languages import Language, parse_language
from pipeline.domain.page_selection import PageSelection, parse_pages
from pipeline.domain.profiles import Profile


class LanePolicy(StrEnum):
    """Which devices may take a document's chunks."""

    AUTO = "auto"
    """An accelerator for long documents where one is live, else the CPU."""
    CPU = "cpu"
    GPU = "gpu"
    """Wait for whoever serves the `gpu` queue."""


class PoorLayers(StrEnum):
    """What becomes of pages under the text of an earlier recogniser that made too many mistakes."""

    REDO = "redo"
    """They are recognised."""
    KEEP = "keep"
    """They keep that text, with a flag that says how bad it is."""


class OutputFormat(StrEnum):
    """A form in which the finished document is written."""

    JSON = "json"
    MARKDOWN = "markdown"
    TEXT = "text"


MIN_DPI = 36
MAX_DPI = 1200
MAX_LANGUAGES = 8
MIN_VISUAL_TOKENS = 256
MAX_VISUAL_TOKENS = 1120

_Choice = TypeVar("_Choice", bound=StrEnum)
_ENGINE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SHOWN = 40
"""Characters of a wrong value that a message repeats; the row's text may be of any length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """One document's options; what was not asked for is left to the settings."""

    lane: LanePolicy = LanePolicy.AUTO
    engine: str | None = None
    profile: Profile = Profile.BALANCED
    dpi: float | None = None
    """What scans are rendered at, 36 to 1200."""
    languages: tuple[Language, ...] = ()
    """What it is written in; none leaves it to the engine."""
    words: bool = False
    """Whether `document.json` is to have the words of lines."""
    poor_layers: PoorLayers = PoorLayers.REDO
    reuse: bool = True
    """Whether pages that look like one that was read before may be taken over from there, and others from here."""
    visual_tokens: int | None = None
    """In how many tokens an engine sees a page, 256 to 1120, where it has such a budget."""
    formats: tuple[OutputFormat, ...] = tuple(OutputFormat)
    """Each once, in the order of `OutputFormat`."""
    pages: PageSelection | None = None
    """All, where nothing is said."""


def parse_options(options: object) -> JobOptions:
    """Return the options that a job row asks for.

    Raises: Rejected (`invalid_options`), naming every problem at once.
    """
    if not isinstance(options, Mapping):
        raise Rejected(ErrorCode.INVALID_OPTIONS, f"options must be an object, not {_show(options)}")
    problems = [
        f"unknown option {_show(name)}; known are {', '.join(_PARSERS)}" for name in options if name not in _PARSERS
    ]
    parsed: dict[str, Any] = {}
    for name, parse in _PARSERS.items():
        if name in options:
            try:
                parsed[name] = parse(options[name])
            except ValueError as problem:
                problems.append(f"{name} {problem}")
    if problems:
        raise Rejected(ErrorCode.INVALID_OPTIONS, "; ".join(problems))
    return JobOptions(**parsed)


def options_to_json(options: JobOptions) -> dict[str, Any]:
    """Return the options as they stand on a job row; `parse_options` gives them back."""
    return {
        "lane": options.lane.value,
        "engine": options.engine,
        "profile": options.profile.value,
        "dpi": options.dpi,
        "languages": [language.code for language in options.languages],
        "words": options.words,
        "poor_layers": options.poor_layers.value,
        "reuse": options.reuse,
        "visual_tokens": options.visual_tokens,
        "formats": [name.value for name in options.formats],
        "pages": None if options.pages is None else str(options.pages),
    }


def _one_of(kind: type[_Choice]) -> Callable[[object], _Choice]:
    def parse(value: object) -> _Choice:
        if not isinstance(value, str) or value not in set(kind):
            raise ValueError(f"must be one of {', '.join(kind)}, not {_show(value)}")
        return kind(value)

    return parse


def _parse_engine(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _ENGINE_NAME.fullmatch(value):
        raise ValueError(f"must be an engine's name such as rapidocr, not {_show(value)}")
    return value


def _parse_dpi(value: object) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not MIN_DPI <= value <= MAX_DPI:  # type: ignore[operator]
        raise ValueError(f"must be a number from {MIN_DPI} to {MAX_DPI}, not {_show(value)}")
    return value  # type: ignore[return-value]


def _parse_languages(value: object) -> tuple[Language, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_LANGUAGES:
        raise ValueError(f"must be a list of at most {MAX_LANGUAGES} languages, not {_show(value)}")
    return tuple(dict.fromkeys(map(parse_language, value)))


def _parse_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_show(value)}")  # noqa: TRY004 - they are collected
    return value


def _parse_visual_tokens(value: object) -> int | None:
    if value is None:
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or not MIN_VISUAL_TOKENS <= value <= MAX_VISUAL_TOKENS:  # type: ignore[operator]
        raise ValueError(f"must be a number from {MIN_VISUAL_TOKENS} to {MAX_VISUAL_TOKENS}, not {_show(value)}")
    return value  # type: ignore[return-value]


def _parse_formats(value: object) -> tuple[OutputFormat, ...]:
    known = ", ".join(OutputFormat)
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"must be a list of at least one of {known}, not {_show(value)}")
    wrong = [_show(name) for name in value if not isinstance(name, str) or name not in set(OutputFormat)]
    if wrong:
        raise ValueError(f"must be a list of {known}, without {', '.join(wrong)}")
    return tuple(name for name in OutputFormat if name in value)


def _parse_pages(value: object) -> PageSelection | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"must be a text such as 3-10,15, not {_show(value)}")  # noqa: TRY004 - reported as a problem
    return parse_pages(value)


_PARSERS: Mapping[str, Callable[[object], Any]] = {
    "lane": _one_of(LanePolicy),
    "engine": _parse_engine,
    "profile": _one_of(Profile),
    "dpi": _parse_dpi,
    "languages": _parse_languages,
    "words": _parse_bool,
    "poor_layers": _one_of(PoorLayers),
    "reuse": _parse_bool,
    "visual_tokens": _parse_visual_tokens,
    "formats": _parse_formats,
    "pages": _parse_pages,
}


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
