"""Webhooks as those see them who look after them, over Postgres: what was sent, with what result, and once more."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Engine, case, null, select, update

from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.tables import Delivery, DeliveryAttempt, Endpoint
from pipeline.domain.document import JobId
from pipeline.domain.webhooks import DeliveryError, DeliveryState, WebhookEvent
from pipeline.ports.deliveries import AttemptRow, DeliveryStatus


class PostgresDeliveryLog:
    """The log of deliveries. With a tenant, only its deliveries exist."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def latest(
        self,
        limit: int,
        *,
        tenant: str | None = None,
        job_id: JobId | None = None,
        states: frozenset[DeliveryState] = frozenset(),
        before: UUID | None = None,
    ) -> list[DeliveryStatus]:
        """Return the newest deliveries, newest first; with `before`, those that were made before that one."""
        conditions: list[ColumnElement[bool]] = []
        if tenant is not None:
            conditions.append(Delivery.tenant == tenant)
        if job_id is not None:
            conditions.append(Delivery.job_id == job_id)
        if states:
            conditions.append(Delivery.state.in_([str(state) for state in states]))
        if before is not None:
            conditions.append(Delivery.id < before)
        statement = select(Delivery).where(*conditions).order_by(Delivery.id.desc()).limit(limit)
        with transaction(self._engine) as connection:
            return [_status(row) for row in connection.execute(statement)]

    def find(self, delivery_id: UUID, *, tenant: str | None = None) -> tuple[DeliveryStatus, list[AttemptRow]] | None:
        """Return a delivery and its latest attempts, oldest first; None where there is none."""
        with transaction(self._engine) as connection:
            row = connection.execute(select(Delivery).where(_is_one_of([delivery_id], tenant))).one_or_none()
            if row is None:
                return None
            attempts = connection.execute(
                select(DeliveryAttempt)
                .where(DeliveryAttempt.delivery_id == delivery_id)
                .order_by(DeliveryAttempt.number)
            ).all()
        return _status(row), [_attempt(attempt) for attempt in attempts]

    def replay(self, delivery_ids: Sequence[UUID], *, tenant: str | None = None) -> list[UUID]:
        """Make deliveries due at once, whatever became of them before; return those that there are.

        They keep their ids and bodies, and may be tried as often as if they were new.
        """
        statement = (
            update(Delivery)
            .where(_is_one_of(delivery_ids, tenant))
            .values(
                state=DeliveryState.DUE,
                tries=0,
                next_at=NOW,
                begun_at=NOW,
                ended_at=null(),
                # Of one that is due anyhow, the latest answer is still of interest.
                last_error=case((Delivery.state == DeliveryState.DUE, Delivery.last_error), else_=null()),
            )
            .returning(Delivery.id, Delivery.tenant, Delivery.host)
        )
        with transaction(self._engine) as connection:
            replayed = connection.execute(statement).all()
            for row in replayed:
                # Whoever replays believes that the endpoint is there again.
                whither = (Endpoint.tenant == row.tenant, Endpoint.host == row.host)
                connection.execute(update(Endpoint).where(*whither).values(not_before=None))
        return [row.id for row in replayed]


def _is_one_of(delivery_ids: Sequence[UUID], tenant: str | None) -> ColumnElement[bool]:
    is_one = Delivery.id.in_(delivery_ids)
    return is_one if tenant is None else is_one & (Delivery.tenant == tenant)


def _status(row: Any) -> DeliveryStatus:
    return DeliveryStatus(
        delivery_id=row.id,
        job_id=JobId(row.job_id),
        tenant=row.tenant,
        url=row.url,
        event=WebhookEvent(row.event),
        state=DeliveryState(row.state),
        attempts=row.attempt,
        next_at=row.next_at,
        last_status=row.last_status,
        last_error=_error(row.last_error),
        created_at=row.created_at,
        ended_at=row.ended_at,
    )


def _attempt(row: Any) -> AttemptRow:
    return AttemptRow(
        number=row.number,
        started_at=row.started_at,
        elapsed_ms=row.elapsed_ms,
        status=row.status,
        error=_error(row.error),
    )


def _error(text: str | None) -> DeliveryError | None:
    return DeliveryError(text) if text else None
