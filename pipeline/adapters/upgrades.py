"""What a change of the schema would do, and what stands in its way, before anything is changed."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from sqlalchemy import create_engine, text

from pipeline.adapters.database import MIGRATIONS, known_revisions, revisions, transaction

_VERSIONS = MIGRATIONS / "versions"
_CONNECTED = text("""
    SELECT application_name AS name, coalesce(clock_timestamp() - xact_start, '0') AS open_for
    FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
    ORDER BY application_name, pid
""")
_LONG = timedelta(seconds=30)
"""What migrations wait for, in all (migrations/env.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A change of the schema."""

    revision: str
    summary: str
    old_processes_may_run: bool
    """Whether those of the version before go on beside it; it says so itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Somebody who has a connection to the database."""

    name: str
    """What it calls itself (`application_name`)."""
    open_for: timedelta
    """How long its transaction has been open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What an upgrade has before it."""

    at: str | None
    migrations: Sequence[Migration]
    connected: Sequence[Connected]

    @property
    def hindrance(self) -> str | None:
        """Return why it should not begin now, and what to do; None where nothing speaks against it."""
        if not self.migrations:
            return None
        if holding := sorted({each.name or "unnamed" for each in self.connected if each.open_for > _LONG}):
            return f"transactions have been open for long, and a migration would wait in vain: {', '.join(holding)}"
        alone = [each.revision for each in self.migrations if not each.old_processes_may_run]
        if alone and self.connected:
            names = sorted({each.name or "unnamed" for each in self.connected})
            return f"revision {', '.join(alone)} breaks processes that run; stop them first: {', '.join(names)}"
        return None


def migrations(folder: Path = _VERSIONS) -> dict[str, Migration]:
    """Return all migrations of this code by their revisions."""
    read = [_read(path) for path in sorted(folder.glob("[0-9]*.py"))]
    return {migration.revision: migration for migration in read}


def upgrade_of(url: str, folder: Path = _VERSIONS) -> Upgrade:
    """Return what an upgrade of the database to this code has before it. Raises: Transient."""
    at, _ = revisions(url)
    known = known_revisions(folder)
    pending = known[known.index(at) + 1 :] if at in known else () if at else known
    all_of_them = migrations(folder)
    engine = create_engine(url)
    try:
        with transaction(engine) as connection:
            connected = [Connected(name=row.name, open_for=row.open_for) for row in connection.execute(_CONNECTED)]
    finally:
        engine.dispose()
    return Upgrade(at=at, migrations=[all_of_them[revision] for revision in pending], connected=connected)


def _read(path: Path) -> Migration:
    # Not imported: a process that only asks needs no Alembic.
    module = ast.parse(path.read_text())
    said = {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return Migration(
        revision=str(said["revision"]),
        summary=(ast.get_docstring(module) or "").partition("\n")[0],
        old_processes_may_run=bool(said["old_processes_may_run"]),
    )
