"""Send webhooks: one delivery at a time is claimed, posted, and its fate recorded.

A sender that dies between the two sends it again: at least once, always with the same id.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from pipeline.domain.webhooks import Again, fate_of, rest_of, signature
from pipeline.ports.deliveries import DeliveryQueue, Poster, TakenDelivery

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SendWebhooks:
    """The use case, over its ports. Safe to share between threads."""

    rows: DeliveryQueue
    poster: Poster
    max_tries: int
    now: Callable[[], datetime]
    """Receivers compare it with their own clock."""
    jitter: Callable[[], float]

    def take(self) -> TakenDelivery | None:
        """Claim what is due next, if anything is. Raises: Transient, without the database."""
        return self.rows.take()

    def send(self, taken: TakenDelivery) -> None:
        """Post it, and record what came of that. Raises: Transient, without the database."""
        body = json.dumps(taken.body, ensure_ascii=False, separators=(",", ":")).encode()
        result = self.poster.post(taken.url, headers=self._headers(taken, body), body=body)
        fate = fate_of(result, tries=taken.tries, max_tries=self.max_tries, jitter=self.jitter())
        self.rows.record(taken, result, fate, rest_of(result, failures=taken.failures, jitter=self.jitter()))
        # The host only: a URL may be a secret.
        log.info(
            "webhook_sent" if result.error is None else "webhook_failed",
            delivery_id=str(taken.delivery_id),
            attempt=taken.attempt,
            host=taken.host,
            status=result.status,
            error=result.error,
            ms=result.elapsed_ms,
            again_s=round(fate.after.total_seconds(), 1) if isinstance(fate, Again) else None,
        )

    def _headers(self, taken: TakenDelivery, body: bytes) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "Muniment-Delivery": str(taken.delivery_id),
            "Muniment-Event": taken.event,
            "Muniment-Signature": signature(body, at=int(self.now().timestamp()), keys=taken.keys),
        }
