"""The options of a document, as `run` and `submit` take them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

TIME_FORMS = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
_FORMATS = ("json", "markdown", "text")
_LANES = ("auto", "cpu", "gpu")


def document_options(command: Command) -> Command:
    """Add the options to a command, which gets them as one mapping `options` by way of `collected`."""
    for option in (
        click.option("--engine", help="Which recogniser reads scans."),
        click.option("--lane", type=click.Choice(_LANES), help="Which devices may take it."),
        click.option("--dpi", type=click.FloatRange(36, 1200), help="What scans are rendered at."),
        click.option(
            "--format", "formats", type=click.Choice(_FORMATS), multiple=True, help="Repeatable; default all."
        ),
        click.option("--priority", type=click.IntRange(-100, 100), default=0, help="Higher goes first."),
    ):
        command = option(command)
    return command


def collected(
    *, engine: str | None, lane: str | None, dpi: float | None, formats: tuple[str, ...]
) -> dict[str, object]:
    """Return what was asked for as it stands on a job's row; what was not asked for is left to the settings."""
    asked = {"engine": engine, "lane": lane, "dpi": dpi, "formats": list(formats) or None}
    return {name: value for name, value in asked.items() if value is not None}


def as_utc(moment: datetime | None) -> datetime | None:
    """Return a time given on the command line as what it is: UTC."""
    return moment.replace(tzinfo=UTC) if moment else None
