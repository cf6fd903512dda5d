"""`keys`: who may call the HTTP API."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pipeline.adapters.api_keys import KeyStatus, PostgresApiKeys

_SCOPES = ("submit", "read", "act", "admin")


@click.group("keys")
def keys_command() -> None:
    """Make, list, rotate and revoke keys of the HTTP API."""


@keys_command.command("create")
@click.argument("name")
@click.option("--tenant", default="default", show_default=True, help="Whose jobs it is about.")
@click.option("--scope", "scopes", type=click.Choice(_SCOPES), multiple=True, required=True, help="Repeatable.")
@click.option("--days", type=click.IntRange(1), help="How long it is good; default until it is revoked.")
@click.option("--network", "networks", multiple=True, help="Where it may be used from, as 10.0.0.0/8; repeatable.")
@click.option("--requests-per-minute", type=click.IntRange(1), help="Default api.requests_per_minute.")
@click.option("--pages-per-day", type=click.IntRange(0), help="How many pages may be handed in with it.")
def create(
    *,
    name: str,
    tenant: str,
    scopes: tuple[str, ...],
    days: int | None,
    networks: tuple[str, ...],
    requests_per_minute: int | None,
    pages_per_day: int | None,
) -> None:
    """Make a key and print it. It is printed this once: only a digest is kept."""
    from pipeline.domain.api_keys import KeyGrant, Scope

    try:
        grant = KeyGrant(
            tenant=tenant,
            name=name,
            scopes=frozenset(map(Scope, scopes)),
            networks=networks,
            requests_per_minute=requests_per_minute,
            pages_per_day=pages_per_day,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with _keys() as keys:
        click.echo(keys.create(grant, lives=_days(days)).token)


@keys_command.command("list")
@click.option("--tenant", help="Only those of this tenant.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a key.")
def list_keys(tenant: str | None, as_json: bool) -> None:
    """List keys, oldest first; never their secrets."""
    with _keys() as keys:
        for status in keys.all(tenant):
            click.echo(json.dumps(_as_json(status)) if as_json else _as_line(status))


@keys_command.command("rotate")
@click.argument("key_id")
@click.option("--overlap-hours", type=click.IntRange(0), default=24, show_default=True, help="The old one lives on.")
@click.option("--days", type=click.IntRange(1), help="How long the new one is good.")
def rotate(key_id: str, overlap_hours: int, days: int | None) -> None:
    """Make a key that may do the same, print it, and let the old one expire."""
    from pipeline.adapters.api_keys import NoSuchKey

    with _keys() as keys:
        try:
            made = keys.rotate(key_id, overlap=timedelta(hours=overlap_hours), lives=_days(days))
        except NoSuchKey:
            raise click.UsageError(f"there is no live key {key_id}: see `muniment keys list`") from None
    click.echo(made.token)


@keys_command.command("revoke")
@click.argument("key_ids", nargs=-1, required=True, metavar="KEY_ID...")
def revoke(key_ids: tuple[str, ...]) -> None:
    """End keys at once. Exit code 1 if one of them was none, or was revoked before."""
    with _keys() as keys:
        revoked = keys.revoke(key_ids)
    for key_id in revoked:
        click.echo(f"{key_id} revoked")
    if missing := sorted(set(key_ids) - set(revoked)):
        raise click.ClickException(f"no key to revoke: {', '.join(missing)}")


@keys_command.command("show")
def show() -> None:
    """Print the key of the embedded stack that runs here; it may do everything for the tenant `default`."""
    from pipeline.embedded.state import read_state
    from pipeline.settings import default_home

    state = read_state(default_home())
    if state is None or state.api is None:
        raise click.ClickException(f"no stack with an API runs in {default_home()}: start it with `muniment up`")
    click.echo(state.api.key)


@contextmanager
def _keys() -> "Iterator[PostgresApiKeys]":
    from pipeline.adapters.api_keys import PostgresApiKeys
    from pipeline.adapters.database import connect
    from pipeline.commands.access import database_url

    engine = connect(database_url(), actor="muniment cli", pool_size=1)
    try:
        yield PostgresApiKeys(engine)
    finally:
        engine.dispose()


def _days(days: int | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def _as_json(status: "KeyStatus") -> dict[str, object]:
    grant = status.grant
    return {
        "id": status.key_id,
        "name": grant.name,
        "tenant": grant.tenant,
        "scopes": sorted(grant.scopes),
        "networks": list(grant.networks),
        "requests_per_minute": grant.requests_per_minute,
        "pages_per_day": grant.pages_per_day,
        "state": status.state.value,
        "created_at": status.created_at.isoformat(),
        "expires_at": status.expires_at.isoformat() if status.expires_at else None,
        "last_used_at": status.last_used_at.isoformat() if status.last_used_at else None,
    }


def _as_line(status: "KeyStatus") -> str:
    used = f"used {status.last_used_at:%Y-%m-%d %H:%M}" if status.last_used_at else "never used"
    scopes = ",".join(sorted(status.grant.scopes))
    return f"{status.key_id}  {status.state.value:8} {status.grant.tenant}  {scopes}  {used}  {status.grant.name}"
