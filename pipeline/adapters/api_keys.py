"""Keys of the API over Postgres, and the quota of pages that goes with them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Engine, Row, bindparam, case, cast, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import DATE
from sqlalchemy.dialects.postgresql import insert as upsert

from pipeline.adapters.conditions import NOW, OPEN_JOB
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import ApiKey, Job, Usage
from pipeline.domain.api_keys import KeyGrant, NewKey, Scope, digest, is_secret, new_key

_TODAY = cast(func.timezone("UTC", NOW), DATE)
_USE_NOTED_EVERY = timedelta(minutes=1)


class NoSuchKey(LookupError):
    """There is no live key of that id."""


class KeyState(StrEnum):
    """Whether a key opens anything."""

    LIVE = "live"
    EXPIRED = "expired"
    REVOKED = "revoked"


_STATE = case(
    (ApiKey.revoked_at.is_not(None), KeyState.REVOKED.value),
    (ApiKey.expires_at <= NOW, KeyState.EXPIRED.value),
    else_=KeyState.LIVE.value,
).label("state")

_PRESENTED = select(
    ApiKey,
    _STATE,
    or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at < NOW - _USE_NOTED_EVERY).label("is_news"),
).where(ApiKey.id.in_(bindparam("ids", expanding=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatus:
    """A key as it is now; its secret is known to its holder only."""

    key_id: str
    grant: KeyGrant
    state: KeyState
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class PostgresApiKeys:
    """Keys over Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, grant: KeyGrant, *, lives: timedelta | None = None, key: NewKey | None = None) -> NewKey:
        """Enter a key and return it; it can't be had again. Where its id is known already, nothing is changed."""
        made = key or new_key()
        values = _values(made, grant) | {"expires_at": None if lives is None else NOW + lives}
        with transaction(self._engine) as connection:
            connection.execute(upsert(ApiKey).values(values).on_conflict_do_nothing())
        return made

    def check(self, presented: Collection[NewKey]) -> dict[NewKey, KeyStatus]:
        """Return the keys that were presented, without those that there are not, or whose secret is another."""
        with transaction(self._engine) as connection:
            rows = {row.id: row for row in connection.execute(_PRESENTED, {"ids": [key.key_id for key in presented]})}
            kept = {key: rows[key.key_id].secret_sha256 if key.key_id in rows else None for key in presented}
            known = {key: rows[key.key_id] for key in presented if is_secret(key.secret, kept[key])}
            if news := {row.id for row in known.values() if row.is_news}:
                connection.execute(update(ApiKey).where(ApiKey.id.in_(news)).values(last_used_at=NOW))
        return {key: _status(row) for key, row in known.items()}

    def all(self, tenant: str | None = None) -> list[KeyStatus]:
        """Return all keys, or those of a tenant, oldest first."""
        statement = select(ApiKey, _STATE).order_by(ApiKey.created_at, ApiKey.id)
        if tenant is not None:
            statement = statement.where(ApiKey.tenant == tenant)
        with transaction(self._engine) as connection:
            return [_status(row) for row in connection.execute(statement)]

    def check_table(self) -> None:
        """Make sure that keys can be looked up. Raises: Transient (`database_unavailable`)."""
        with transaction(self._engine) as connection:
            connection.execute(select(ApiKey.id).limit(0))

    def revoke(self, key_ids: Sequence[str]) -> list[str]:
        """End keys at once; return those that were not revoked before."""
        statement = (
            update(ApiKey)
            .where(ApiKey.id.in_(key_ids), ApiKey.revoked_at.is_(None))
            .values(revoked_at=NOW)
            .returning(ApiKey.id)
        )
        with transaction(self._engine) as connection:
            return sorted(connection.execute(statement).scalars())

    def rotate(self, key_id: str, *, overlap: timedelta, lives: timedelta | None = None) -> NewKey:
        """Make a key that allows the same, and let the old one expire after the overlap.

        Raises: NoSuchKey, also if it is revoked or expired.
        """
        made = new_key()
        with transaction(self._engine) as connection:
            old = connection.execute(
                update(ApiKey)
                .where(ApiKey.id == key_id, _STATE.element == KeyState.LIVE)
                .values(expires_at=func.least(ApiKey.expires_at, NOW + overlap))
                .returning(ApiKey)
            ).one_or_none()
            if old is None:
                raise NoSuchKey(key_id)
            expires_at = None if lives is None else NOW + lives
            connection.execute(insert(ApiKey).values(_values(made, _grant(old)) | {"expires_at": expires_at}))
        return made

    def pages_today(self, key_id: str) -> int:
        """Return how many pages were planned for the key since midnight, UTC, and how many may follow at least.

        A document whose pages are not counted yet is one.
        """
        planned = select(func.coalesce(func.sum(Usage.pages), 0)).where(Usage.day == _TODAY, Usage.api_key_id == key_id)
        unplanned = select(func.count()).where(Job.api_key_id == key_id, Job.page_count.is_(None), OPEN_JOB)
        with transaction(self._engine) as connection:
            total = connection.execute(select(planned.scalar_subquery() + unplanned.scalar_subquery())).scalar_one()
        return int(total)


def _values(key: NewKey, grant: KeyGrant) -> dict[str, Any]:
    return {
        "id": key.key_id,
        "secret_sha256": digest(key.secret),
        "tenant": grant.tenant,
        "name": grant.name,
        "scopes": sorted(grant.scopes),
        "networks": list(grant.networks),
        "requests_per_minute": grant.requests_per_minute,
        "pages_per_day": grant.pages_per_day,
    }


def _grant(row: Row[Any]) -> KeyGrant:
    return KeyGrant(
        tenant=row.tenant,
        name=row.name,
        scopes=frozenset(map(Scope, row.scopes)),
        networks=tuple(row.networks),
        requests_per_minute=row.requests_per_minute,
        pages_per_day=row.pages_per_day,
    )


def _status(row: Row[Any]) -> KeyStatus:
    return KeyStatus(
        key_id=row.id,
        grant=_grant(row),
        state=KeyState(row.state),
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
    )
