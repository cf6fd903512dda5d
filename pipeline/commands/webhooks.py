"""`webhooks`: what callers were told, once more if need be, and what that is signed with."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from pipeline.adapters.webhook_keys import SigningKeyStatus
    from pipeline.ports.deliveries import AttemptRow, DeliveryStatus

_STATES = ("due", "delivered", "dead")


@click.group("webhooks")
def webhooks_command() -> None:
    """Show and replay webhooks, and manage what they are signed with."""


@webhooks_command.command("list")
@click.option("--tenant", help="Only those of this tenant.")
@click.option("--job", "job_id", help="Only those of this job.")
@click.option("--state", "states", type=click.Choice(_STATES), multiple=True, help="Only those; repeatable.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a webhook.")
def list_command(tenant: str | None, job_id: str | None, states: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List webhooks, newest first."""
    from pipeline.adapters.delivery_log import PostgresDeliveryLog
    from pipeline.commands.access import parse_id
    from pipeline.domain.webhooks import DeliveryState

    wanted = frozenset(map(DeliveryState, states))
    with _rows() as engine:
        log = PostgresDeliveryLog(engine)
        found = log.latest(limit, tenant=tenant, job_id=parse_id(job_id) if job_id else None, states=wanted)
    for status in found:
        click.echo(json.dumps(_as_json(status)) if as_json else _as_line(status))


@webhooks_command.command("show")
@click.argument("delivery_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show_command(delivery_id: str, as_json: bool) -> None:
    """Show a webhook with its latest attempts."""
    from pipeline.adapters.delivery_log import PostgresDeliveryLog

    with _rows() as engine:
        found = PostgresDeliveryLog(engine).find(_parse_id(delivery_id))
    if found is None:
        raise click.UsageError(f"there is no webhook {delivery_id}: see `muniment webhooks list`")
    status, attempts = found
    if as_json:
        click.echo(json.dumps(_as_json(status) | {"log": [_attempt_as_json(row) for row in attempts]}, indent=2))
        return
    for name, value in _as_json(status).items():
        click.echo(f"{name:12} {'' if value is None else value}")
    for row in attempts:
        took = "no answer was recorded" if row.elapsed_ms is None else f"{row.elapsed_ms} ms"
        click.echo(f"{row.started_at:%Y-%m-%d %H:%M:%S}  {row.number:3}  {_outcome(row.status, row.error):16} {took}")


@webhooks_command.command("replay")
@click.argument("delivery_ids", nargs=-1, required=True, metavar="DELIVERY_ID...")
def replay_command(delivery_ids: tuple[str, ...]) -> None:
    """Send webhooks again at once, with the same ids and bodies, whatever became of them before."""
    from pipeline.adapters.delivery_log import PostgresDeliveryLog

    asked = [_parse_id(delivery_id) for delivery_id in delivery_ids]
    with _rows() as engine:
        replayed = PostgresDeliveryLog(engine).replay(asked)
    for delivery_id in replayed:
        click.echo(f"{delivery_id}: due now")
    _complain("webhook", [str(delivery_id) for delivery_id in asked if delivery_id not in replayed])


@webhooks_command.command("keys")
@click.option("--tenant", help="Only those of this tenant.")
@click.option("--secrets", is_flag=True, help="Show the secrets, which receivers need.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a key.")
def keys_command(tenant: str | None, secrets: bool, as_json: bool) -> None:
    """List what webhooks are signed with, oldest first."""
    from pipeline.adapters.webhook_keys import PostgresWebhookKeys

    with _rows() as engine:
        found = PostgresWebhookKeys(engine).all(tenant)
    for status in found:
        secret = {"secret": status.key.secret} if secrets else {}
        described = _key_as_json(status) | secret
        click.echo(json.dumps(described) if as_json else "  ".join(map(str, described.values())))


@webhooks_command.command("rotate")
@click.option("--tenant", default="default", show_default=True, help="Whose webhooks.")
@click.option("--overlap-hours", type=click.IntRange(0), default=24, show_default=True, help="Old keys go on signing.")
def rotate_command(tenant: str, overlap_hours: int) -> None:
    """Make a key for a tenant, its first or the next, and print its id and secret.

    Until the overlap is over, webhooks are signed with the new key and with those before it.
    """
    from pipeline.adapters.webhook_keys import PostgresWebhookKeys

    with _rows() as engine:
        made = PostgresWebhookKeys(engine).rotate(tenant, overlap=timedelta(hours=overlap_hours))
    click.echo(f"{made.key.key_id}  {made.key.secret}")


@webhooks_command.command("revoke")
@click.argument("key_ids", nargs=-1, required=True, metavar="KEY_ID...")
def revoke_command(key_ids: tuple[str, ...]) -> None:
    """Sign nothing more with these keys. A tenant without any gets a new one with its next webhook."""
    from pipeline.adapters.webhook_keys import PostgresWebhookKeys

    with _rows() as engine:
        revoked = PostgresWebhookKeys(engine).revoke(key_ids)
    for key_id in revoked:
        click.echo(f"{key_id} revoked")
    _complain("live key", sorted(set(key_ids) - set(revoked)))


@contextmanager
def _rows() -> "Iterator[Engine]":
    from pipeline.adapters.database import connect
    from pipeline.commands.access import database_url

    engine = connect(database_url(), actor="muniment cli", pool_size=1)
    try:
        yield engine
    finally:
        engine.dispose()


def _parse_id(delivery_id: str) -> UUID:
    try:
        return UUID(delivery_id)
    except ValueError:
        raise click.UsageError(f"{delivery_id} is no id of a webhook: see `muniment webhooks list`") from None


def _complain(what: str, missing: Sequence[str]) -> None:
    if missing:
        raise click.ClickException(f"there is no {what} {', '.join(missing)}")


def _as_json(status: "DeliveryStatus") -> dict[str, Any]:
    return {
        "id": str(status.delivery_id),
        "job_id": str(status.job_id),
        "tenant": status.tenant,
        "url": status.url,
        "event": status.event.value,
        "state": status.state.value,
        "attempts": status.attempts,
        "next_at": status.next_at.isoformat() if status.next_at else None,
        "last_status": status.last_status,
        "last_error": status.last_error,
        "created_at": status.created_at.isoformat(),
        "ended_at": status.ended_at.isoformat() if status.ended_at else None,
    }


def _as_line(status: "DeliveryStatus") -> str:
    last = _outcome(status.last_status, status.last_error) if status.attempts else "not tried"
    return f"{status.delivery_id}  {status.state:9}  {status.event:13}  {status.attempts:2} tries  {last}  {status.url}"


def _attempt_as_json(row: "AttemptRow") -> dict[str, Any]:
    return {
        "number": row.number,
        "started_at": row.started_at.isoformat(),
        "elapsed_ms": row.elapsed_ms,
        "status": row.status,
        "error": row.error,
    }


def _key_as_json(status: "SigningKeyStatus") -> dict[str, Any]:
    return {
        "id": status.key.key_id,
        "tenant": status.tenant,
        "state": "live" if status.is_live else "expired",
        "created_at": status.created_at.isoformat(),
        "expires_at": status.expires_at.isoformat() if status.expires_at else None,
    }


def _outcome(status: int | None, error: str | None) -> str:
    """Return what an endpoint answered, or why it did not."""
    return str(status or error or "")
