"""Posts webhooks to endpoints that the settings allow; their answers are looked at no further than their status."""

import time
from collections.abc import Mapping
from datetime import timedelta

from pipeline.adapters.outbound import Outbound, Unreachable
from pipeline.domain.web import NotAllowed
from pipeline.domain.webhooks import DeliveryError, Result


class WebhookPoster:
    """Poster over HTTP."""

    def __init__(self, outbound: Outbound, *, within: timedelta) -> None:
        self._outbound = outbound
        self._within = within

    def post(self, url: str, *, headers: Mapping[str, str], body: bytes) -> Result:
        """Send a body and say what came of it."""
        begun = time.monotonic()
        status, error = self._post(url, headers, body)
        return Result(status=status, error=error, elapsed_ms=round((time.monotonic() - begun) * 1000))

    def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int | None, DeliveryError | None]:
        try:
            with self._outbound.exchange("POST", url, within=self._within, headers=headers, body=body) as answer:
                return answer.status, None if 200 <= answer.status < 300 else DeliveryError.STATUS
        except NotAllowed:
            return None, DeliveryError.NOT_ALLOWED
        except Unreachable as unreachable:
            return None, DeliveryError(unreachable.trouble.value)
