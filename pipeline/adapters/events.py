"""Rows of the trail that no move of a state writes by itself."""

import json

from sqlalchemy import Connection, text

from pipeline.domain.document import ChunkId, JobId

# The actor is said as the triggers say it.
_NOTE = text("""
    INSERT INTO event (job_id, chunk_id, actor, kind, detail) VALUES (
        :job_id, :chunk_id, coalesce(nullif(current_setting('application_name'), ''), session_user), :kind,
        jsonb_strip_nulls(CAST(:detail AS jsonb)))
""")


def note(connection: Connection, kind: str, job_id: JobId, chunk_id: ChunkId | None, **detail: object) -> None:
    """Write down what happened to a job or to one of its chunks; never text of a document."""
    values = {"kind": kind, "job_id": job_id, "chunk_id": chunk_id, "detail": json.dumps(detail)}
    connection.execute(_NOTE, values)
