"""Baselines as JSON files."""

import json
from dataclasses import asdict
from pathlib import Path

from pipeline.ports.baselines import VERSION, Baseline
from pipeline.settings import SettingsError


class NoBaseline(SettingsError):
    """A file that the settings name is not a baseline; the message says why."""


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write the file; one that is there is replaced at once or not at all."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps({"version": VERSION, **asdict(baseline)}, indent=2) + "\n")
    unfinished.replace(path)


def read_baseline(path: Path) -> Baseline:
    """Return what a file says. Raises: NoBaseline."""
    try:
        told = json.loads(path.read_text())
        if told.pop("version") != VERSION:
            raise NoBaseline(f"{path} is of another version than {VERSION}: measure again with `muniment bench`")
        return Baseline(**told)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise NoBaseline(f"{path} is no baseline of `muniment bench`: {type(error).__name__}: {error}") from error
