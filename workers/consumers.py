"""Has a worker take messages or leave them on the broker for others, as its device serves or not.

The consumer lives in the worker's main process and the device in its child, so this goes the way of Celery's remote
control, by the broker, to this very node.
"""

import socket
from collections.abc import Sequence

import structlog
from celery import current_app

from workers.chains import UNREACHABLE

log = structlog.get_logger()
_ANSWER_WITHIN_S = 2


class Consumers:
    """The queues of one worker. Not for use by two threads."""

    def __init__(self, queues: Sequence[str], *, node: str) -> None:
        self._queues = [queue for queue in queues if queue]
        self._node = f"{node}@{socket.gethostname()}"
        self._consuming: bool | None = None
        """What the worker was last told; a child that came in another's place knows nothing of it."""

    def keep(self, *, consuming: bool) -> None:
        """Begin or stop to consume, if that is not what the worker does; what it does not answer is asked again."""
        if consuming == self._consuming:
            return
        ask = current_app.control.add_consumer if consuming else current_app.control.cancel_consumer
        try:
            answers = [
                ask(queue, destination=[self._node], reply=True, timeout=_ANSWER_WITHIN_S) for queue in self._queues
            ]
        except UNREACHABLE as error:
            log.warning("consumers_not_asked", node=self._node, detail=str(error))
            return
        if all(answers):
            self._consuming = consuming
            log.info("consumers_changed", node=self._node, consuming=consuming)
