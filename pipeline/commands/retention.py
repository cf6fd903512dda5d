"""`retention`: removes what has been kept long enough, as dispatchers do by themselves, or says what would go."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pipeline.commands.access import Access
    from pipeline.ports.objects import StoredObject
    from pipeline.steps.expire import Expire


@click.command("retention")
@click.option("--dry-run", is_flag=True, help="Remove nothing; say what would go now.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: one object a line, with all keys.")
def retention_command(dry_run: bool, as_json: bool) -> None:
    """Remove now all that has been kept long enough; dispatchers do it by themselves, bit by bit."""
    from pipeline.commands.access import open_access
    from pipeline.logs import configure_logs

    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run")
    with open_access() as access:
        expire = _expire(access)
        if dry_run:
            _say_what_would_go(expire, as_json=as_json)
            return
        configure_logs(access.settings.log, worker="cli")
        removed = 0
        while some := expire():
            removed += some
        click.echo(f"removed something of {removed} jobs and uploads" if removed else "nothing was due")


def _expire(access: "Access") -> "Expire":
    from datetime import UTC, datetime

    from pipeline.adapters.retention import PostgresRetention
    from pipeline.steps.expire import Expire

    ages = access.settings.retention
    return Expire(
        rows=PostgresRetention(access.engine, ages.ages(), devices_age=ages.devices),
        objects=access.objects,
        at_once=ages.at_once,
        uploads_age=ages.uploads,
        now=lambda: datetime.now(UTC),
    )


@dataclass(slots=True)
class _Sum:
    jobs: set[str] = field(default_factory=set)
    objects: int = 0
    size_bytes: int = 0

    def add(self, job_id: str | None, objects: "tuple[StoredObject, ...]") -> None:
        self.jobs |= {job_id} if job_id else set()
        self.objects += len(objects)
        self.size_bytes += sum(item.size_bytes for item in objects)


def _say_what_would_go(expire: "Expire", *, as_json: bool) -> None:
    sums: defaultdict[tuple[str, str], _Sum] = defaultdict(_Sum)
    for going in expire.due():
        expired = going.expired
        sums[expired.tenant, expired.what].add(str(expired.job_id), going.objects)
        if as_json:
            _say_one(tenant=expired.tenant, what=expired.what, job_id=str(expired.job_id), objects=going.objects)
    for item in expire.left_behind():
        sums["", "uploads"].add(None, (item,))
        if as_json:
            _say_one(tenant=None, what="uploads", job_id=None, objects=(item,))
    if as_json:
        return
    for (tenant, what), total in sorted(sums.items()):
        whose = f"{tenant}: {what} of {len(total.jobs)} jobs" if total.jobs else f"{what} of no open job"
        click.echo(f"{whose}, {total.objects} objects, {total.size_bytes} bytes")
    if not sums:
        click.echo("nothing is due")


def _say_one(*, tenant: str | None, what: str, job_id: str | None, objects: "tuple[StoredObject, ...]") -> None:
    named = {"tenant": tenant, "what": what, "job_id": job_id}
    stored = [{"key": item.key, "bytes": item.size_bytes} for item in objects]
    click.echo(json.dumps({**named, "objects": stored}, ensure_ascii=False))
