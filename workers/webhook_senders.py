"""Threads of a dispatcher that send webhooks: whatever an endpoint does holds up neither documents nor others."""

import threading
import time
from datetime import timedelta

import structlog

from pipeline.domain.errors import PipelineError
from pipeline.ports.deliveries import TakenDelivery
from pipeline.steps.send_webhooks import SendWebhooks

log = structlog.get_logger()


class WebhookSenders:
    """Run as long as their context. One looks for what is due; whoever finds something sends it, and the next looks."""

    def __init__(self, webhooks: SendWebhooks, *, threads: int, every: timedelta, last: timedelta) -> None:
        """Args: every is how often somebody looks while nothing is due; last is what a stop waits for."""
        self._webhooks = webhooks
        self._every_s = every.total_seconds()
        self._last_s = last.total_seconds()
        self._looking = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, name="webhooks", daemon=True) for _ in range(threads)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        deadline = time.monotonic() + self._last_s
        for thread in self._threads:
            # What is cut off by our end is sent again.
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if taken := self._next():
                    self._webhooks.send(taken)
            except PipelineError as error:
                log.warning("webhooks_put_off", code=error.code, detail=error.message)
            except Exception:  # the border of the thread: the next delivery may fare better
                log.exception("webhooks_broke")
                self._stopping.wait(self._every_s)

    def _next(self) -> TakenDelivery | None:
        """Return what is due next as soon as something is; None when it is time to stop."""
        with self._looking:
            while not self._stopping.is_set():
                try:
                    if taken := self._webhooks.take():
                        return taken
                except PipelineError as error:
                    log.warning("webhooks_put_off", code=error.code, detail=error.message)
                self._stopping.wait(self._every_s)
        return None
