"""The options of a document, as `run` and `submit` take them."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

TIME_FORMS = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
_FORMATS = ("json", "markdown", "text")
_LANES = ("auto", "cpu", "gpu")
_PROFILES = ("fast", "balanced", "accurate")
_POOR_LAYERS = ("redo", "keep")


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def age(value: str) -> "timedelta | Literal['default']":
    """Return what a number of seconds, minutes, hours or days means, such as `30d`; `default` stays.

    Raises: click.BadParameter.
    """
    if value == "default":
        return "default"
    parts = re.fullmatch(r"(\d{1,8})([smhd])", value)
    if parts is None:
        raise click.BadParameter(f"{value} is no age: those look like 30d, 12h or 90s, or `default` for the settings'")
    return timedelta(seconds=int(parts[1]) * _UNITS[parts[2]])


def _codes(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    from pipeline.domain.languages import parse_language

    try:
        return tuple(parse_language(name).code for name in names)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


language_option = click.option(
    "--language",
    "languages",
    multiple=True,
    callback=_codes,
    help="What it is written in: de, zh-Hans; repeatable.",
)


profile_option = click.option("--profile", type=click.Choice(_PROFILES), help="Speed or care; default balanced.")


reuse_option = click.option(
    "--no-reuse", "reuse", flag_value=False, default=None, help="Read pages even if some that look the same were read."
)


def document_options(command: Command) -> Command:
    """Add the options to a command, which gets them as one mapping `options` by way of `collected`."""
    for option in (
        click.option("--engine", help="Which recogniser reads scans."),
        profile_option,
        click.option("--lane", type=click.Choice(_LANES), help="Which devices may take it."),
        click.option("--dpi", type=click.FloatRange(36, 1200), help="What scans are rendered at."),
        language_option,
        click.option("--words", is_flag=True, help="Give the words of each line with their places, too."),
        click.option(
            "--poor-layers", type=click.Choice(_POOR_LAYERS), help="Text that a poor recogniser left; default redo."
        ),
        reuse_option,
        click.option("--visual-tokens", type=click.IntRange(256, 1120), help="How closely to look at a page."),
        click.option(
            "--format", "formats", type=click.Choice(_FORMATS), multiple=True, help="Repeatable; default all."
        ),
        click.option("--pages", metavar="3-10,15", callback=_pages, help="Only these; 3- is all from there on."),
        click.option("--priority", type=click.IntRange(-100, 100), default=0, help="Higher goes first."),
    ):
        command = option(command)
    return command


def _pages(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return the pages as rows have them. Raises: click.BadParameter."""
    from pipeline.domain.page_selection import parse_pages

    try:
        return None if value is None else str(parse_pages(value))
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def collected(
    *,
    engine: str | None,
    profile: str | None,
    lane: str | None,
    dpi: float | None,
    languages: tuple[str, ...],
    words: bool,
    poor_layers: str | None,
    reuse: bool | None,
    visual_tokens: int | None,
    formats: tuple[str, ...],
    pages: str | None,
) -> dict[str, object]:
    """Return what was asked for as it stands on a job's row; what was not asked for is left to the settings."""
    asked = {
        "engine": engine,
        "profile": profile,
        "lane": lane,
        "dpi": dpi,
        "languages": list(languages) or None,
        "words": words or None,
        "poor_layers": poor_layers,
        "reuse": reuse,
        "visual_tokens": visual_tokens,
        "formats": list(formats) or None,
        "pages": pages,
    }
    return {name: value for name, value in asked.items() if value is not None}


def as_utc(moment: datetime | None) -> datetime | None:
    """Return a time given on the command line as what it is: UTC."""
    return moment.replace(tzinfo=UTC) if moment else None
