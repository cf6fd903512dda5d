"""The Celery tasks: parse ids, run the step, obey its decision. Nothing here knows a domain fact."""

import os
from typing import Any
from uuid import UUID

import structlog
from celery import Task, shared_task
from celery.signals import worker_process_init, worker_process_shutdown, worker_shutting_down

from pipeline.domain.document import ChunkId, JobId
from pipeline.domain.states import Step
from pipeline.steps.job_step import Next
from workers import child
from workers.chains import MESSAGE_VERSION, VERSION_HEADER

log = structlog.get_logger()


class KnownTask(Task):  # type: ignore[misc] # Celery has no types
    """A task that takes only messages which it understands; a message is a hint, and its row is there for others."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it, unless the message was written by a later version."""
        version = (self.request.headers or {}).get(VERSION_HEADER, MESSAGE_VERSION)
        if version > MESSAGE_VERSION:
            log.warning("message_of_later_version", task=self.name, version=version, known=MESSAGE_VERSION)
            self.request.chain = None
            return None
        return super().__call__(*args, **kwargs)


def _run_job_step(task: Task, step: Step, job_id: str, attempt: int) -> None:
    wiring = child.wiring()
    decision = wiring.steps.run(JobId(UUID(job_id)), step, attempt, getattr(wiring, step))
    if decision is Next.STOP:
        # The rest of the chain would find nothing to claim; it need not be sent.
        task.request.chain = None


@shared_task(name="muniment.ingest", bind=True, base=KnownTask)
def ingest(self: Task, job_id: str, attempt: int) -> None:
    """Fetch, check and store a document."""
    _run_job_step(self, Step.INGEST, job_id, attempt)


@shared_task(name="muniment.split", bind=True, base=KnownTask)
def split(self: Task, job_id: str, attempt: int) -> None:
    """Classify a document's pages and plan its chunks."""
    _run_job_step(self, Step.SPLIT, job_id, attempt)


@shared_task(name="muniment.render", bind=True, base=KnownTask)
def render(self: Task, chunk_id: str, attempt: int) -> None:
    """Render a chunk's pages ahead of their recognition."""
    if child.render()(ChunkId(UUID(chunk_id)), attempt) is Next.STOP:
        self.request.chain = None


@shared_task(name="muniment.recognise", base=KnownTask)
def recognise(chunk_id: str, attempt: int) -> None:
    """Recognise a chunk on this process's device."""
    child.recognise()(ChunkId(UUID(chunk_id)), attempt)


@shared_task(name="muniment.merge", bind=True, base=KnownTask)
def merge(self: Task, job_id: str, attempt: int) -> None:
    """Bind a document's pages."""
    _run_job_step(self, Step.MERGE, job_id, attempt)


@shared_task(name="muniment.export", bind=True, base=KnownTask)
def export(self: Task, job_id: str, attempt: int) -> None:
    """Write a document's outputs."""
    _run_job_step(self, Step.EXPORT, job_id, attempt)


@shared_task(name="muniment.deliver", bind=True, base=KnownTask)
def deliver(self: Task, job_id: str, attempt: int) -> None:
    """End a job as its pages ended."""
    _run_job_step(self, Step.DELIVER, job_id, attempt)


@worker_process_init.connect
def _begin(**_: Any) -> None:
    try:
        child.begin()
    except Exception:
        # Celery would go on with a child that was not set up, and that would take messages and lose them.
        log.exception("child_not_begun")
        os._exit(1)


@worker_process_shutdown.connect
def _end(**_: Any) -> None:
    child.end()


@worker_shutting_down.connect
def _drain(**_: Any) -> None:
    child.DRAIN.set()
