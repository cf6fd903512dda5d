"""`db`, `prepare`: what has to be there before processes start."""

import click


@click.group("db")
def db_command() -> None:
    """Manage the database's schema."""


@db_command.command("upgrade")
def upgrade() -> None:
    """Bring the schema to the newest revision; safe to call again, and by several at once."""
    from pipeline.adapters.database import revisions, upgrade
    from pipeline.commands.access import database_url

    url = database_url()
    before, _ = revisions(url)
    upgrade(url)
    now, _ = revisions(url)
    click.echo(f"the database is at revision {now}" + (", as it was" if before == now else f", was at {before}"))


@click.command("prepare")
def prepare_command() -> None:
    """Make the servers that the settings name usable: newest schema, bucket, its rules. Safe to call again."""
    from pipeline.adapters.database import revisions
    from pipeline.commands.access import servers_named
    from pipeline.embedded.prepare import limit_uploads, prepare_bucket, prepare_database

    settings, url = servers_named()
    prepare_database(url)
    click.echo(f"the database is at revision {revisions(url)[0]}")
    prepare_bucket(settings.objects)
    uploads = settings.retention.uploads
    # What a job that is paused all its life names must still be there.
    takes_rules = limit_uploads(settings.objects, whole=settings.limits.longest_job + uploads, begun=uploads)
    rules = "it removes uploads left behind" if takes_rules else "it takes no lifecycle rules, dispatchers clean up"
    click.echo(f"the bucket {settings.objects.bucket} takes and gives objects; {rules}")
