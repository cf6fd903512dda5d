"""Structured logs on standard error: JSON lines or text; ids and numbers, never document text.

Lines of ours and of the libraries that we run in take the same form, so that a collector can parse all of them.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from pipeline.settings import LogSettings

Count = Callable[[str, Mapping[str, Any]], None]
"""Is given the level of a line, and the line."""

_FOLDER = Path(__file__).resolve().parents[1]
_LIBRARIES = ("celery", "kombu", "alembic", "uvicorn")
"""Whose lines follow `log.level`. All others may say what they like below WARNING: it is not shown."""
_LEVELS = logging.getLevelNamesMapping()


def configure_logs(settings: LogSettings, *, count: Count | None = None, **bound: str) -> None:
    """Set up logging for this process; what is given besides is bound to every line.

    Args: count is told of each line from INFO on, shown or not.
    """
    form = _form(settings)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            *([_counting(count)] if count else []),
            _Chosen(settings),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *form,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_lowest(settings)),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(**bound)
    _configure_libraries(settings, form)


def _form(settings: LogSettings) -> list[structlog.types.Processor]:
    if settings.json_lines:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # The default prints local variables with a traceback, and those may hold a document's text.
    plain = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    return [structlog.processors.StackInfoRenderer(), plain]


def _configure_libraries(settings: LogSettings, form: list[structlog.types.Processor]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *form],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(settings.level)
    for name, level in settings.levels.items():
        logging.getLogger(name).setLevel(level)


def _lowest(settings: LogSettings) -> int:
    """Return the level from which on lines are made at all: those from INFO on may be counted."""
    return min(logging.INFO, *(_LEVELS[level] for level in (settings.level, *settings.levels.values())))


def _counting(count: Count) -> structlog.types.Processor:
    def note(_logger: Any, level: str, line: structlog.types.EventDict) -> structlog.types.EventDict:
        if _LEVELS[level.upper()] >= logging.INFO:
            count(line["level"], line)
        return line

    return note


class _Chosen:
    """Drops lines below the level of their module."""

    def __init__(self, settings: LogSettings) -> None:
        self._level = _LEVELS[settings.level]
        # The longest name first: it says most about where a line comes from.
        self._levels = [
            (name, _LEVELS[settings.levels[name]]) for name in sorted(settings.levels, key=len, reverse=True)
        ]
        self._find_path = structlog.processors.CallsiteParameterAdder(
            {structlog.processors.CallsiteParameter.PATHNAME}, additional_ignores=[__name__]
        )

    def __call__(self, logger: Any, name: str, line: structlog.types.EventDict) -> structlog.types.EventDict:
        if _LEVELS[line["level"].upper()] < self._level_for(logger, name):
            raise structlog.DropEvent
        return line

    def _level_for(self, logger: Any, name: str) -> int:
        if not self._levels:
            return self._level
        module = _module(self._find_path(logger, name, {})["pathname"])
        found = (level for prefix, level in self._levels if f"{module}.".startswith(f"{prefix}."))
        return next(found, self._level)


def _module(path: str) -> str:
    """Return the dotted name of one of our modules; that of any other is empty."""
    file = Path(path)
    return ".".join(file.relative_to(_FOLDER).with_suffix("").parts) if file.is_relative_to(_FOLDER) else ""
