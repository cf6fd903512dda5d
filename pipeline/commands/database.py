"""`db`: the database's schema."""

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
