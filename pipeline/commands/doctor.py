"""`doctor`: checks versions, disk, ports, clock, database, store, broker and engine, and says what to do about each."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

_FREE_BYTES = 2 * 1024**3
_CLOCK_OFF = timedelta(seconds=30)
_OLDEST_POSTGRES = 130000
_CHECKED_PACKAGES = ("celery", "kombu", "sqlalchemy", "psycopg", "minio", "pypdfium2", "pikepdf", "rapidocr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one check."""

    name: str
    is_good: bool
    detail: str
    """What was found, and what to do if that is not good."""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a check.")
def doctor_command(as_json: bool) -> None:
    """Check this installation and the running system; exit code 1 if something is wrong."""
    findings = [_checked(name, check) for name, check in _CHECKS.items()]
    for finding in findings:
        if as_json:
            click.echo(json.dumps({"name": finding.name, "good": finding.is_good, "detail": finding.detail}))
        else:
            click.echo(f"{'ok ' if finding.is_good else 'BAD'} {finding.name:10} {finding.detail}")
    if not all(finding.is_good for finding in findings):
        sys.exit(1)


def _checked(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name=name, is_good=True, detail=check())
    except Exception as error:  # whatever it is, it is what the doctor is asked for
        return Finding(name=name, is_good=False, detail=str(error) or type(error).__name__)


def _need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise RuntimeError(otherwise)


def _versions() -> str:
    found = [f"Python {sys.version.split()[0]}"]
    for package in _CHECKED_PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def _settings() -> str:
    from pipeline.settings import default_home, read_settings

    read_settings()
    return f"readable; home is {default_home()}"


def _disk() -> str:
    import tempfile

    from pipeline.settings import default_home

    folder = default_home()
    while not folder.exists():
        folder = folder.parent
    for place in (folder, Path(tempfile.gettempdir())):
        free = shutil.disk_usage(place).free
        _need(free > _FREE_BYTES, f"only {free / 1024**3:.1f} GB free in {place}: make room, at least 2 GB")
    return f"{shutil.disk_usage(folder).free / 1024**3:.0f} GB free in {folder}"


def _ports() -> str:
    from pipeline.embedded.ports import HIGHEST, LOWEST, PortPicker
    from pipeline.settings import default_home

    port = PortPicker(default_home()).pick()
    return f"servers can listen on the loopback interface, e.g. at {port} ({LOWEST} to {HIGHEST} are used)"


def _stack() -> str:
    from pipeline.embedded.state import read_state
    from pipeline.settings import default_home

    state = read_state(default_home())
    if state is None:
        return "the embedded stack does not run here (muniment up starts it)"
    down = [name for name, report in state.processes.items() if report.state != "running"]
    _need(not down, f"not running: {', '.join(down)}; see their logs in {default_home() / 'logs'}")
    return f"{len(state.processes)} processes run"


def _database() -> str:
    from sqlalchemy import text

    from pipeline.adapters.database import revisions, transaction
    from pipeline.adapters.fitness import check_database
    from pipeline.commands.access import database_url, open_access

    at, _ = revisions(database_url())
    with open_access() as access, transaction(access.engine) as connection:
        check_database(access.settings.database)
        number = int(connection.execute(text("SHOW server_version_num")).scalar_one())
        _need(number >= _OLDEST_POSTGRES, f"Postgres {number} is too old: 13 is the oldest that works")
        now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    off = abs(now - datetime.now(UTC))
    _need(off < _CLOCK_OFF, f"this host's clock is {off} off the database's: set up time synchronisation")
    return f"Postgres {number // 10000}, schema {at}, clocks {off.total_seconds() * 1000:.0f} ms apart"


def _upgrade() -> str:
    from pipeline.adapters.upgrades import upgrade_of
    from pipeline.commands.access import database_url

    ahead = upgrade_of(database_url())
    if not ahead.migrations:
        return "the schema is the newest that this version knows"
    to_come = ", ".join(migration.revision for migration in ahead.migrations)
    raise RuntimeError(f"revisions {to_come} are to come (muniment prepare): {ahead.hindrance or 'nothing in the way'}")


def _store() -> str:
    from pipeline.commands.access import open_access

    with open_access() as access:
        access.objects.check()
        access.objects.put("uploads/doctor", b"doctor", media_type="text/plain")
        with access.objects.get("uploads/doctor") as pieces:
            _need(b"".join(pieces) == b"doctor", "the store gives back something else than it was given")
        access.objects.delete(["uploads/doctor"])
        return f"bucket {access.settings.objects.bucket} takes, gives and removes objects"


def _broker() -> str:
    # By a process of its own: the command line knows no Celery.
    import subprocess

    asked = subprocess.run(
        [sys.executable, "-m", "workers.broker_check"], capture_output=True, text=True, timeout=30, check=False
    )
    _need(asked.returncode == 0, asked.stderr.strip().splitlines()[-1] if asked.stderr.strip() else "no answer")
    return asked.stdout.strip()


def _engine() -> str:
    from pipeline.engines.registry import create
    from pipeline.settings import read_settings

    devices = read_settings().devices
    engine = create(devices.engine, devices.engine_options.get(devices.engine, {}))
    engine.warm_up()
    return f"{devices.engine} reads here: {engine.identity.revision}"


_CHECKS: dict[str, Callable[[], str]] = {
    "versions": _versions,
    "settings": _settings,
    "disk": _disk,
    "ports": _ports,
    "stack": _stack,
    "database": _database,
    "upgrade": _upgrade,
    "store": _store,
    "broker": _broker,
    "engine": _engine,
}
