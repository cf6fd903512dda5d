"""Structured logs on standard error: JSON lines or text; ids and numbers, never document text."""

import logging
import sys

import structlog

from pipeline.settings import LogSettings


def configure_logs(settings: LogSettings, **bound: str) -> None:
    """Set up structlog for this process; what is given besides is bound to every line."""
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.json_lines
        # The default prints local variables with a traceback, and those may hold a document's text.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if settings.json_lines else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(**bound)
