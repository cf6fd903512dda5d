"""ChainQueue on Celery: linear chains of immutable signatures, ids and attempt numbers only."""

from uuid import UUID, uuid5

import kombu.exceptions
import redis.exceptions
from celery import Celery, chain, signature
from celery.canvas import Signature

from pipeline.domain.document import JobId
from pipeline.domain.errors import ErrorCode, Transient
from pipeline.domain.states import Step, chain_from
from pipeline.ports.dispatch import DueChunk, DueJob

# Redis's transport keeps one list for each of its steps 0, 3, 6 and 9, and takes 0 first.
_FIRST = 0
_IN_TURN = 6
MESSAGE_VERSION = 1
"""Of what tasks are given. Who finds a later one leaves the message alone; its row is sent again to those who know it.

Raise it when arguments change their meaning, and let workers know both for a release.
"""
VERSION_HEADER = "muniment-version"
UNREACHABLE = (kombu.exceptions.OperationalError, redis.exceptions.RedisError, OSError)


def task_id(job_id: JobId, step: Step, attempt: int, chunk_id: UUID | None = None) -> str:
    """Return the id that the task of this attempt always has. The very first task of a job has the job's own id."""
    if step is Step.INGEST and attempt == 1:
        return str(job_id)
    return str(uuid5(chunk_id or job_id, f"{step} {attempt}"))


class CeleryChains:
    """Sends chains. Flower shows all tasks of a document as one tree: the job's id is their root."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def send_job(self, due: DueJob) -> None:
        """Send the job's step and those that follow it in its chain, one attempt later each."""
        signatures = [
            self._signature(step, due.job_id, due.attempt + later, "io")
            for later, step in enumerate(chain_from(due.step))
        ]
        is_root = due.step is Step.INGEST and due.attempt == 1
        self._send(signatures, root=due.job_id, parent=None if is_root else due.job_id)

    def send_chunk(self, due: DueChunk) -> None:
        """Send the chunk to its lane, by way of the render queue if the lane wants its pages rendered ahead."""
        steps = (Step.RENDER, Step.RECOGNISE) if due.lane.renders_ahead else (Step.RECOGNISE,)
        queue_of = {Step.RENDER: "render", Step.RECOGNISE: str(due.lane)}
        signatures = [
            self._signature(step, due.job_id, due.attempt, queue_of[step], chunk_id=due.chunk_id).set(
                priority=_FIRST if due.is_short else _IN_TURN
            )
            for step in steps
        ]
        self._send(signatures, root=due.job_id, parent=due.job_id)

    def depth(self, queue: str) -> int | None:
        """Count the messages that wait in a queue; None if the broker does not say."""
        try:
            with self._app.connection_for_read() as connection:
                channel = connection.default_channel
                # Redis channels sum their priority lists here; other transports are not asked.
                return channel._size(queue) if hasattr(channel, "_size") else None  # noqa: SLF001
        except UNREACHABLE as error:
            raise _broker_away(error) from error

    def _signature(
        self, step: Step, job_id: JobId, attempt: int, queue: str, *, chunk_id: UUID | None = None
    ) -> Signature:
        return signature(
            f"muniment.{step}",
            args=(str(chunk_id or job_id), attempt),
            immutable=True,
            app=self._app,
            task_id=task_id(job_id, step, attempt, chunk_id),
            queue=queue,
            headers={VERSION_HEADER: MESSAGE_VERSION},
        )

    def _send(self, signatures: list[Signature], *, root: JobId, parent: JobId | None) -> None:
        # On the first signature itself: a chain passes a parent on to nobody.
        signatures[0].set(parent_id=str(parent) if parent else None)
        try:
            # Whoever sends tries again by itself; Celery's own retries would hold it up for four socket timeouts.
            if len(signatures) == 1:
                signatures[0].apply_async(root_id=str(root), retry=False)
            else:
                whole = chain(*signatures, app=self._app)
                whole.apply_async(task_id=signatures[-1].options["task_id"], root_id=str(root), retry=False)
        except UNREACHABLE as error:
            raise _broker_away(error) from error


def _broker_away(error: Exception) -> Transient:
    return Transient(ErrorCode.BROKER_UNAVAILABLE, f"the broker did not answer: {type(error).__name__}")
