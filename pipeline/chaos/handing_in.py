"""Hands a drill's documents in, as a user with patience does: servers may be away meanwhile."""

import threading
from typing import Self
from uuid import uuid4

from pipeline.adapters.evidence import PostgresEvidence
from pipeline.adapters.objects import S3Objects
from pipeline.adapters.submissions import PostgresSubmissions
from pipeline.chaos.documents import DPI, write
from pipeline.chaos.schedule import Document
from pipeline.domain import keys
from pipeline.domain.errors import PipelineError
from pipeline.ports.submissions import Submission

_OPEN_DOCUMENTS = 8
"""Handed in at the same time; the others follow, so that every step is in work throughout the drill."""
_TRY_AGAIN_S = 0.3


class HandingIn:
    """Hands documents in from a thread of its own, a window at a time, and tries again whatever is away."""

    def __init__(
        self,
        documents: tuple[Document, ...],
        submissions: PostgresSubmissions,
        objects: S3Objects,
        evidence: PostgresEvidence,
    ) -> None:
        self._documents = documents
        self._submissions = submissions
        self._objects = objects
        self._evidence = evidence
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="handing-in", daemon=True)
        self.failure: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Whether everything was handed in, or never will be."""
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.failure:
            raise self.failure

    def _run(self) -> None:
        try:
            for document in self._documents:
                content = write(document)
                while not self._stop.is_set() and not self._hand_in(document, content):
                    self._stop.wait(_TRY_AGAIN_S)
        except Exception as error:  # raised again in the thread that waits for this one
            self.failure = error

    def _hand_in(self, document: Document, content: bytes) -> bool:
        """Hand one document in; say whether that worked. As often as it takes: its key makes it one job."""
        try:
            if self._evidence.progress().jobs_open >= _OPEN_DOCUMENTS:
                return False
            key = keys.upload(uuid4())
            self._objects.put(key, content, media_type="application/octet-stream")
            self._submissions.insert(
                Submission(
                    upload_key=key,
                    source_name=document.name,
                    options={"lane": str(document.lane), "dpi": DPI},
                    idempotency_key=document.name,
                )
            )
        except PipelineError:
            return False
        return True
