"""What tenants' webhooks are signed with, over Postgres."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, or_, select, update

from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import WebhookKey
from pipeline.domain.webhooks import SigningKey, new_signing_key

_IS_LIVE = or_(WebhookKey.expires_at.is_(None), WebhookKey.expires_at > NOW)
_STATUS = select(WebhookKey, _IS_LIVE.label("is_live"))
_MOST_LIVE = 5
_MOST_KEPT = 20
"""Of a tenant, with those that sign no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeyStatus:
    """A key as it is now."""

    key: SigningKey
    tenant: str
    is_live: bool
    created_at: datetime
    expires_at: datetime | None


def live_keys(connection: Connection, tenant: str) -> tuple[SigningKey, ...]:
    """Return what the tenant's webhooks are signed with now, newest first; a first key is made where there is none."""
    statement = (
        select(WebhookKey.id, WebhookKey.secret)
        .where(WebhookKey.tenant == tenant, _IS_LIVE)
        .order_by(WebhookKey.created_at.desc(), WebhookKey.id)
    )
    found = tuple(SigningKey(key_id=row.id, secret=row.secret) for row in connection.execute(statement))
    return found or (_enter(connection, tenant),)


class PostgresWebhookKeys:
    """Signing keys over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self, tenant: str | None = None) -> list[SigningKeyStatus]:
        """Return all keys, or those of a tenant, oldest first."""
        statement = _STATUS.order_by(WebhookKey.created_at, WebhookKey.id)
        if tenant is not None:
            statement = statement.where(WebhookKey.tenant == tenant)
        with transaction(self._engine) as connection:
            return [_status(row) for row in connection.execute(statement)]

    def rotate(self, tenant: str, *, overlap: timedelta) -> SigningKeyStatus:
        """Make a key for a tenant; those that it has go on signing beside it, until the overlap is over.

        Of more than five only the newest do: each signs every webhook. Keys that sign no more are forgotten in time.
        """
        mine = select(WebhookKey.id).where(WebhookKey.tenant == tenant)
        newest_first = mine.order_by(WebhookKey.created_at.desc(), WebhookKey.id)
        with transaction(self._engine) as connection:
            connection.execute(
                update(WebhookKey)
                .where(WebhookKey.tenant == tenant, _IS_LIVE)
                .values(expires_at=func.least(WebhookKey.expires_at, NOW + overlap))
            )
            made = _enter(connection, tenant)
            connection.execute(
                update(WebhookKey)
                .where(WebhookKey.id.in_(newest_first.offset(_MOST_LIVE)), _IS_LIVE)
                .values(expires_at=NOW)
            )
            connection.execute(delete(WebhookKey).where(WebhookKey.id.in_(newest_first.offset(_MOST_KEPT))))
            row = connection.execute(_STATUS.where(WebhookKey.id == made.key_id)).one()
        return _status(row)

    def revoke(self, key_ids: Sequence[str], *, tenant: str | None = None) -> list[str]:
        """Let keys, or those of them that are a tenant's, sign nothing more; return those that did until now."""
        statement = update(WebhookKey).where(WebhookKey.id.in_(key_ids), _IS_LIVE).values(expires_at=NOW)
        if tenant is not None:
            statement = statement.where(WebhookKey.tenant == tenant)
        with transaction(self._engine) as connection:
            return sorted(connection.execute(statement.returning(WebhookKey.id)).scalars())


def _status(row: Any) -> SigningKeyStatus:
    return SigningKeyStatus(
        key=SigningKey(key_id=row.id, secret=row.secret),
        tenant=row.tenant,
        is_live=row.is_live,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )


def _enter(connection: Connection, tenant: str) -> SigningKey:
    made = new_signing_key()
    connection.execute(insert(WebhookKey).values(id=made.key_id, tenant=tenant, secret=made.secret))
    return made
