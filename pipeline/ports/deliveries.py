"""Webhooks that are to be sent, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from pipeline.domain.document import JobId
from pipeline.domain.webhooks import DeliveryError, DeliveryState, Fate, Result, SigningKey, WebhookEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenDelivery:
    """A delivery that is ours to send, at one attempt."""

    delivery_id: UUID
    attempt: int
    """Of all; the fence."""
    tries: int
    """Attempts since it was made, or replayed, this one included."""
    tenant: str
    host: str
    url: str
    event: WebhookEvent
    body: Mapping[str, object]
    keys: tuple[SigningKey, ...]
    """Newest first, at least one."""
    failures: int
    """How often the endpoint was not reached, in a row."""


class DeliveryQueue(Protocol):
    """Deliveries, one at a time for each endpoint, the endpoints in turn."""

    def take(self) -> TakenDelivery | None:
        """Claim the next delivery that is due; None where there is none, or all their endpoints are busy or resting."""

    def record(self, taken: TakenDelivery, result: Result, fate: Fate, rest: timedelta | None) -> None:
        """Write down what came of it, unless it was taken or replayed since; let go of its endpoint."""

    def tidy(self) -> int:
        """Give up what is too old or was lost too often, and forget endpoints that nothing goes to any more.

        Return 0: nothing is left for the next call.
        """


class Poster(Protocol):
    """The way to endpoints."""

    def post(self, url: str, *, headers: Mapping[str, str], body: bytes) -> Result:
        """Send a body and say what came of it; bounded in time, never raises for what an endpoint does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt at a delivery."""

    number: int
    started_at: datetime
    elapsed_ms: int | None
    """None while it lasts."""
    status: int | None
    error: DeliveryError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStatus:
    """A delivery as it is now."""

    delivery_id: UUID
    job_id: JobId
    tenant: str
    url: str
    event: WebhookEvent
    state: DeliveryState
    attempts: int
    next_at: datetime | None
    """None when it has ended."""
    last_status: int | None
    last_error: DeliveryError | None
    created_at: datetime
    ended_at: datetime | None
