"""Webhooks that are to be sent, over Postgres: claimed under the lease of their endpoint, recorded at their attempt."""

from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    and_,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.orm import aliased

from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Delivery, DeliveryAttempt, Endpoint
from pipeline.adapters.webhook_keys import live_keys
from pipeline.domain.webhooks import Again, DeliveryError, DeliveryState, Fate, Result, WebhookEvent
from pipeline.ports.deliveries import TakenDelivery

# Not `clock_timestamp()`: only a stable bound is looked up in an index.
_NOW = func.statement_timestamp()
# Written out: only so does the planner know that an index of what is due has it.
_DUE: ColumnElement[str] = literal_column(f"'{DeliveryState.DUE}'")
_IS_DUE = Delivery.state == _DUE
_ATTEMPTS_KEPT = 50
_ENDPOINTS_KEPT = timedelta(days=1)


class PostgresDeliveries:
    """DeliveryQueue over Postgres. Safe to share between threads."""

    def __init__(
        self, engine: Engine, *, lease: timedelta, per_tenant: int, max_tries: int, keep_trying: timedelta
    ) -> None:
        """Args: per_tenant is how many deliveries of a tenant may be on their way together, or about that."""
        self._engine = engine
        self._lease = lease
        self._per_tenant = per_tenant
        self._max_tries = max_tries
        self._keep_trying = keep_trying

    def take(self) -> TakenDelivery | None:
        """Claim the next delivery that is due."""
        with transaction(self._engine) as connection:
            found = connection.execute(self._next()).one_or_none()
            if found is None:
                return None
            row = connection.execute(
                update(Delivery)
                .where(Delivery.id == found.id, _IS_DUE)
                .values(attempt=Delivery.attempt + 1, tries=Delivery.tries + 1, next_at=NOW + self._lease)
                .returning(Delivery)
            ).one_or_none()
            if row is None:
                return None
            connection.execute(
                update(Endpoint)
                .where(_is_endpoint_of(row))
                .values(lease_owner=_claim(row.id, row.attempt), lease_until=NOW + self._lease, taken_at=NOW)
            )
            self._log_claim(connection, row)
            return TakenDelivery(
                delivery_id=row.id,
                attempt=row.attempt,
                tries=row.tries,
                tenant=row.tenant,
                host=row.host,
                url=row.url,
                event=WebhookEvent(row.event),
                body=row.body,
                keys=live_keys(connection, row.tenant),
                failures=found.failures,
            )

    def record(self, taken: TakenDelivery, result: Result, fate: Fate, rest: timedelta | None) -> None:
        """Write down what came of it, unless it was taken or replayed since; let go of its endpoint."""
        with transaction(self._engine) as connection:
            connection.execute(
                update(DeliveryAttempt)
                .where(DeliveryAttempt.delivery_id == taken.delivery_id, DeliveryAttempt.number == taken.attempt)
                .values(elapsed_ms=result.elapsed_ms, status=result.status, error=result.error)
            )
            # Somebody else's attempt, or a replay, which begins to count anew, has the last word.
            is_ours = and_(Delivery.attempt == taken.attempt, Delivery.tries == taken.tries)
            connection.execute(
                update(Delivery)
                .where(Delivery.id == taken.delivery_id, is_ours, _IS_DUE)
                .values(last_status=result.status, last_error=result.error, **_moved(fate))
            )
            is_away = {"failures": Endpoint.failures + 1, "not_before": NOW + rest} if rest else {}
            connection.execute(
                update(Endpoint)
                .where(_is_endpoint_of(taken), Endpoint.lease_owner == _claim(taken.delivery_id, taken.attempt))
                .values({"lease_owner": None, "lease_until": None, "failures": 0, "not_before": None} | is_away)
            )

    def tidy(self) -> int:
        """Give up what is too old or was lost too often, and forget endpoints that nothing goes to any more.

        Return 0: nothing is left for the next call.
        """
        is_unclaimed = and_(_IS_DUE, Delivery.next_at <= _NOW)
        too_old = Delivery.begun_at < _NOW - self._keep_trying
        over = {"state": DeliveryState.DEAD, "next_at": None, "ended_at": NOW}
        unused = and_(
            Endpoint.taken_at < _NOW - _ENDPOINTS_KEPT,
            ~exists().where(Delivery.tenant == Endpoint.tenant, Delivery.host == Endpoint.host).correlate(Endpoint),
        )
        with transaction(self._engine) as connection:
            for condition, error in (
                (too_old, DeliveryError.TOO_OLD),
                (Delivery.tries >= self._max_tries, DeliveryError.LOST),
            ):
                connection.execute(update(Delivery).where(is_unclaimed, condition).values(last_error=error, **over))
        with transaction(self._engine) as connection:
            connection.execute(delete(Endpoint).where(unused))
        return 0

    def _next(self) -> Any:
        """Select what is to be sent next: of the endpoint that has waited longest, what has been due longest."""
        due = (
            select(Delivery.id)
            .where(
                Delivery.tenant == Endpoint.tenant,
                Delivery.host == Endpoint.host,
                _IS_DUE,
                Delivery.next_at <= _NOW,
                Delivery.tries < self._max_tries,
            )
            .order_by(Delivery.next_at)
            .limit(1)
            .correlate(Endpoint)
            .lateral("due")
        )
        other, waiting = aliased(Endpoint), aliased(Delivery)
        on_their_way = (
            select(func.count())
            .where(other.tenant == Endpoint.tenant, other.lease_until.is_not(None), other.lease_until > _NOW)
            .correlate(Endpoint)
            .scalar_subquery()
        )
        # Mostly nothing is due at all, which is found out before any endpoint is looked at.
        anything = exists(select(literal(1)).select_from(waiting).where(waiting.state == _DUE, waiting.next_at <= _NOW))
        return (
            select(due.c.id, Endpoint.failures)
            .join_from(Endpoint, due, true())
            .where(
                anything,
                or_(Endpoint.lease_until.is_(None), Endpoint.lease_until <= _NOW),
                or_(Endpoint.not_before.is_(None), Endpoint.not_before <= _NOW),
                on_their_way < literal(self._per_tenant),
            )
            .order_by(Endpoint.taken_at)
            .limit(1)
            .with_for_update(of=Endpoint, skip_locked=True)
        )

    def _log_claim(self, connection: Connection, row: Any) -> None:
        mine = DeliveryAttempt.delivery_id == row.id
        connection.execute(
            update(DeliveryAttempt)
            .where(mine, DeliveryAttempt.elapsed_ms.is_(None), DeliveryAttempt.error.is_(None))
            .values(error=DeliveryError.LOST)
        )
        connection.execute(delete(DeliveryAttempt).where(mine, DeliveryAttempt.number <= row.attempt - _ATTEMPTS_KEPT))
        connection.execute(insert(DeliveryAttempt).values(delivery_id=row.id, number=row.attempt))


def _is_endpoint_of(delivery: Any) -> Any:
    return and_(Endpoint.tenant == delivery.tenant, Endpoint.host == delivery.host)


def _claim(delivery_id: object, attempt: int) -> str:
    return f"{delivery_id}/{attempt}"


def _moved(fate: Fate) -> dict[str, Any]:
    if isinstance(fate, Again):
        return {"next_at": NOW + fate.after}
    return {"state": fate, "next_at": None, "ended_at": NOW}
