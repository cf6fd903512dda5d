"""`db`, `prepare`: what has to be there before processes start."""

import click

_ANYWAY = click.option(
    "--anyway", is_flag=True, help="Also where `muniment db plan` says that processes have to be stopped first."
)


@click.group("db")
def db_command() -> None:
    """Manage the database's schema."""


@db_command.command("plan")
def plan() -> None:
    """Say what an upgrade would change, and whether it may begin now; exit code 1 if not. Changes nothing."""
    from pipeline.adapters.upgrades import upgrade_of
    from pipeline.commands.access import database_url

    ahead = upgrade_of(database_url())
    click.echo(f"the database is at revision {ahead.at or 'none'}; {len(ahead.migrations)} to come")
    for migration in ahead.migrations:
        beside = "processes may run on" if migration.old_processes_may_run else "stop all processes first"
        click.echo(f"{migration.revision}  {migration.summary} ({beside})")
    if ahead.hindrance:
        raise click.ClickException(ahead.hindrance)


@db_command.command("upgrade")
@_ANYWAY
def upgrade(anyway: bool) -> None:
    """Bring the schema to the newest revision; safe to call again, and by several at once."""
    from pipeline.adapters.database import revisions, upgrade
    from pipeline.commands.access import database_url

    url = database_url()
    _need_a_clear_way(url, anyway=anyway)
    before, _ = revisions(url)
    upgrade(url)
    now, _ = revisions(url)
    click.echo(f"the database is at revision {now}" + (", as it was" if before == now else f", was at {before}"))


@click.command("prepare")
@_ANYWAY
def prepare_command(anyway: bool) -> None:
    """Make the servers that the settings name usable: newest schema, bucket, its rules. Safe to call again."""
    from pipeline.adapters.database import revisions
    from pipeline.commands.access import servers_named
    from pipeline.embedded.prepare import ensure_database, limit_uploads, prepare_bucket, prepare_database

    settings, url = servers_named()
    ensure_database(url)
    _need_a_clear_way(url, anyway=anyway)
    prepare_database(url)
    click.echo(f"the database is at revision {revisions(url)[0]}")
    prepare_bucket(settings.objects)
    uploads = settings.retention.uploads
    # What a job that is paused all its life names must still be there.
    takes_rules = limit_uploads(settings.objects, whole=settings.limits.longest_job + uploads, begun=uploads)
    rules = "it removes uploads left behind" if takes_rules else "it takes no lifecycle rules, dispatchers clean up"
    click.echo(f"the bucket {settings.objects.bucket} takes and gives objects; {rules}")


def _need_a_clear_way(url: str, *, anyway: bool) -> None:
    from pipeline.adapters.upgrades import upgrade_of

    hindrance = None if anyway else upgrade_of(url).hindrance
    if hindrance:
        raise click.ClickException(f"nothing was changed: {hindrance}")
