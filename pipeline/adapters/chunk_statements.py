"""The statements that every chunk goes through: one round trip a move, built once.

They are what a chunk costs beside its reading; `benchmarks/backlog.py` measures them. A statement that changes several
tables changes the chunk first and joins the others to what that returned, so that nothing happens without the claim;
the job's row, for which chunks compete, has a statement of its own.
"""

from dataclasses import fields
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Integer,
    Interval,
    Select,
    SQLColumnExpression,
    Text,
    Uuid,
    bindparam,
    column,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by

from pipeline.adapters.conditions import HELD_JOB, NOW
from pipeline.adapters.passwords import OF_JOB
from pipeline.adapters.tables import Chunk, ChunkAttempt, Job, Page
from pipeline.domain.states import AttemptOutcome, ChunkState, JobState
from pipeline.ports.chunks import Measured

_CHUNK, _JOB = bindparam("of_chunk", type_=Uuid), bindparam("of_job", type_=Uuid)
_ATTEMPT, _LEASE = bindparam("of_attempt", type_=Integer), bindparam("of_lease", type_=Interval)
_OWNER, _DEVICE = bindparam("of_owner", type_=Text), bindparam("of_device", type_=Text)

HELD = (
    Chunk.id == _CHUNK,
    Chunk.state == ChunkState.RUNNING,
    Chunk.attempt == _ATTEMPT,
    Chunk.lease_owner == _OWNER,
)
"""The chunk, while the claim `of_chunk`, `of_attempt`, `of_owner` stands on it."""

_CLAIMABLE = (
    Chunk.id == _CHUNK,
    Chunk.state == ChunkState.ADMITTED,
    Chunk.attempt == _ATTEMPT - 1,
    exists().where(Job.id == Chunk.job_id, Job.state == JobState.RUNNING, ~Job.cancel_requested, ~HELD_JOB),
)


def _without_outcome(chunk: CTE, what: SQLColumnExpression[Any]) -> ColumnElement[Any]:
    """Return, as a list by page number, what is asked of the chunk's pages that have no outcome."""
    return (
        select(func.coalesce(func.jsonb_agg(aggregate_order_by(what, Page.number)), text("'[]'::jsonb")))
        .where(
            Page.job_id == chunk.c.job_id,
            Page.number.between(chunk.c.first_page, chunk.c.last_page),
            Page.outcome.is_(None),
        )
        .scalar_subquery()
    )


def _work_of(chunk: CTE) -> Select[Any]:
    """Select the chunk with what its reader needs: the original, its password, the options, the pages to read."""
    pages = _without_outcome(chunk, func.jsonb_build_array(Page.number, Page.page_class))
    return select(
        chunk, Job.sha256, Job.size_bytes, OF_JOB, Job.options.label("job_options"), pages.label("pages")
    ).join_from(chunk, Job, Job.id == chunk.c.job_id)


PEEK = _work_of(select(Chunk).where(*_CLAIMABLE).cte("claimable"))

_taken = (
    update(Chunk)
    .where(*_CLAIMABLE)
    .values(state=ChunkState.RUNNING, attempt=_ATTEMPT, lease_owner=_OWNER, lease_until=NOW + _LEASE)
    .returning(Chunk)
    .cte("taken")
)
_noted = insert(ChunkAttempt).from_select(
    ["chunk_id", "attempt", "owner", "device_id"], select(_taken.c.id, _ATTEMPT, _OWNER, _DEVICE)
)
CLAIM = _work_of(_taken).add_cte(_noted.cte("noted"))

_UNWANTED = or_(Job.cancel_requested, func.coalesce(Job.deadline < NOW, False)).label("unwanted")
_extended = update(Chunk).where(*HELD).values(lease_until=NOW + _LEASE).returning(Chunk.id).cte("held")

LOOK = select(_UNWANTED, HELD_JOB.label("held")).where(Job.id == _JOB, exists().where(*HELD))
RENEW = select(_UNWANTED, HELD_JOB.label("held")).where(Job.id == _JOB, exists(select(_extended.c.id)))

_entered = (
    text("""
        UPDATE page SET
            outcome = entry.outcome, segment_key = entry.segment_key, chunk_id = held.id, attempt = :of_attempt,
            flags = entry.flags, confidence = entry.confidence, angle_deg = entry.angle_deg,
            width_px = entry.width_px, height_px = entry.height_px, dpi = entry.dpi, engine = entry.engine,
            revision = entry.revision, elapsed_ms = entry.elapsed_ms, error_code = entry.error_code,
            error_detail = entry.error_detail, reused_job = entry.reused_job, reused_page = entry.reused_page
        FROM held, jsonb_to_recordset(CAST(:entries AS jsonb)) AS entry(
            number int, outcome text, segment_key text, flags jsonb, confidence float8, angle_deg float8, width_px int,
            height_px int, dpi float8, engine text, revision text, elapsed_ms int, error_code text, error_detail text,
            reused_job uuid, reused_page int, tokens bigint)
        WHERE page.job_id = :of_job AND page.number = entry.number AND page.outcome IS NULL
        RETURNING page.number, entry.tokens
    """)
    .columns(column("number", Integer), column("tokens", BigInteger))
    .cte("entered")
)
_progress = (
    select(_extended.c.id, func.count(_entered.c.number).label("pages"), func.sum(_entered.c.tokens).label("tokens"))
    .outerjoin_from(_extended, _entered, true())
    .group_by(_extended.c.id)
    .subquery("progress")
)
_counted = (
    update(ChunkAttempt)
    .where(ChunkAttempt.chunk_id == _progress.c.id, ChunkAttempt.attempt == _ATTEMPT)
    .values(
        pages_done=ChunkAttempt.pages_done + _progress.c.pages,
        # Null, and so left as it is, where none was generated.
        tokens=func.coalesce(func.coalesce(ChunkAttempt.tokens, 0) + _progress.c.tokens, ChunkAttempt.tokens),
    )
)
RECORD = (
    select(_UNWANTED, HELD_JOB.label("held"), _progress.c.pages)
    .join_from(Job, _progress, true())
    .where(Job.id == _JOB)
    .add_cte(_extended, _entered, _counted.cte("counted"))
)

ENTERED_BEFORE = text("""
    SELECT count(*) FROM jsonb_to_recordset(CAST(:entries AS jsonb)) AS entry(number int, segment_key text)
    JOIN page USING (number, segment_key)
    WHERE page.job_id = :of_job AND page.chunk_id = :of_chunk AND page.attempt = :of_attempt
""")

_left = (
    update(Chunk)
    .where(*HELD)
    .values(
        state=ChunkState.DONE,
        lease_owner=None,
        lease_until=None,
        dispatched_at=None,
        error_code=None,
        error_detail=None,
    )
    .returning(Chunk)
    .cte("done")
)
_ended = (
    update(ChunkAttempt)
    .where(ChunkAttempt.chunk_id == _left.c.id, ChunkAttempt.attempt == _ATTEMPT)
    .values(
        ended_at=NOW,
        outcome=AttemptOutcome.DONE,
        **{field.name: bindparam(field.name) for field in fields(Measured)},
    )
)
FINISH = select(_without_outcome(_left, Page.number).label("missing")).select_from(_left).add_cte(_ended.cte("ended"))

COUNT_DOWN = (
    update(Job).where(Job.id == _JOB).values(chunks_remaining=Job.chunks_remaining - 1).returning(Job.chunks_remaining)
)
MAKE_MERGE_DUE = (
    update(Job)
    .where(Job.id == _JOB, Job.state == JobState.RUNNING, Job.cancel_requested.is_(False))
    .values(state=JobState.MERGING, dispatched_at=None, not_before=None)
)
