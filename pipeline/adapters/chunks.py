"""The moves of a chunk, fenced; whoever ends the last chunk of a job makes its merge due in the same transaction.

Locks are taken in one order everywhere, the chunk's row before its job's, so that no two moves wait for each other.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, assert_never
from uuid import UUID

from sqlalchemy import Connection, Engine, Result, func, insert, select, text, update

from pipeline.adapters import chunk_statements as statements
from pipeline.adapters import known_pages
from pipeline.adapters.conditions import NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.events import note
from pipeline.adapters.jobs import attempts_of
from pipeline.adapters.passwords import password_of
from pipeline.adapters.tables import Chunk, ChunkAttempt, Job, Page
from pipeline.domain.batches import Misfit
from pipeline.domain.document import ChunkId, JobId, Lane, PageClass, PageRange, chunk_id
from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.retry import ChunkDecision, GiveUp, ReadWith, Retry, Split, counter_of, split_range
from pipeline.domain.serialisation import flag_to_json
from pipeline.domain.states import AttemptOutcome, ChunkState
from pipeline.ports.chunks import ChunkClaim, ClaimedChunk, Hold, KnownPage, Measured, PageEntry, PageTask


class PostgresChunkMoves:
    """ChunkMoves over Postgres. `owner` names this process, uniquely, on the leases that it takes."""

    def __init__(
        self, engine: Engine, *, owner: str, lease: timedelta, pages_known_for: timedelta | None = None
    ) -> None:
        self._engine = engine
        self._owner = owner
        self._lease = lease
        self._pages_known_for = pages_known_for

    def peek(self, chunk: ChunkId, attempt: int) -> ClaimedChunk:
        """Return what a claim at this attempt would get, without claiming, or raise StaleMove."""
        with transaction(self._engine) as connection:
            row = connection.execute(statements.PEEK, {"of_chunk": chunk, "of_attempt": attempt}).one_or_none()
        return self._claimed(chunk, attempt, row)

    def claim(self, chunk: ChunkId, attempt: int, *, device_id: str) -> ClaimedChunk:
        """Take the chunk at this attempt, or raise StaleMove."""
        values = {
            "of_chunk": chunk,
            "of_attempt": attempt,
            "of_owner": self._owner,
            "of_device": device_id,
            "of_lease": self._lease,
        }
        with transaction(self._engine) as connection:
            row = connection.execute(statements.CLAIM, values).one_or_none()
        return self._claimed(chunk, attempt, row)

    def _claimed(self, chunk: ChunkId, attempt: int, row: Any) -> ClaimedChunk:
        if row is None:
            raise StaleMove(f"chunk {chunk} is not to be had at attempt {attempt}")
        return ClaimedChunk(
            claim=ChunkClaim(chunk_id=chunk, job_id=row.job_id, attempt=attempt, owner=self._owner),
            lane=Lane(row.lane),
            pages=tuple(PageTask(number=number, page_class=PageClass(kind)) for number, kind in row.pages),
            sha256=row.sha256,
            size_bytes=row.size_bytes,
            options=row.job_options | (row.options or {}),
            attempts=attempts_of(row),
            password=password_of(row),
            misfit=None if row.misfit is None else _misfit(row.misfit),
        )

    def renew(self, claim: ChunkClaim) -> Hold:
        """Extend the lease and say whether to go on."""
        with transaction(self._engine) as connection:
            return _hold(_held(claim, connection.execute(statements.RENEW, self._values(claim))))

    def look(self, claim: ChunkClaim) -> Hold:
        """Say whether to go on, without extending the lease."""
        with transaction(self._engine) as connection:
            return _hold(_held(claim, connection.execute(statements.LOOK, self._values(claim))))

    def record(self, claim: ChunkClaim, pages: Sequence[PageEntry]) -> Hold:
        """Enter finished pages into the ledger, extend the lease, and say whether to go on.

        Safe to call again with the same pages: the answer to the first call may have been lost after its commit.
        """
        values = self._values(claim) | {"entries": json.dumps([_entry_row(page) for page in pages])}
        with transaction(self._engine) as connection:
            row = _held(claim, connection.execute(statements.RECORD, values))
            came_before = row.pages == 0 and connection.execute(statements.ENTERED_BEFORE, values).scalar_one() == len(
                pages
            )
            if row.pages != len(pages) and not came_before:
                numbers = [page.number for page in pages]
                raise PipelineError(
                    ErrorCode.LEDGER_BROKEN,
                    f"job {claim.job_id}: of pages {numbers} only {row.pages} had no outcome yet",
                )
            known_pages.enter(connection, claim.job_id, pages)
            return _hold(row)

    def known_page(self, claim: ChunkClaim, digest: str) -> KnownPage | None:
        """Return a page of the same tenant that looks like this, if one was read lately and is still there."""
        with transaction(self._engine) as connection:
            return known_pages.find(connection, claim.job_id, digest, self._pages_known_for)

    def note(self, claim: ChunkClaim, kind: str, **detail: object) -> None:
        """Write down on the job's trail what no move says."""
        with transaction(self._engine) as connection:
            note(connection, kind, claim.job_id, claim.chunk_id, attempt=claim.attempt, **detail)

    def finish(self, claim: ChunkClaim, measured: Measured) -> None:
        """End the chunk as done; if it was its job's last, the job's merge is due."""
        values = self._values(claim) | asdict(measured)
        with transaction(self._engine) as connection:
            row = _held(claim, connection.execute(statements.FINISH, values))
            if row.missing:
                raise PipelineError(
                    ErrorCode.LEDGER_BROKEN, f"chunk {claim.chunk_id} ended without an outcome for pages {row.missing}"
                )
            count_down(connection, claim.job_id)

    def _values(self, claim: ChunkClaim) -> dict[str, Any]:
        return _claim_values(claim) | {"of_job": claim.job_id, "of_lease": self._lease}

    def fail(
        self, claim: ChunkClaim, error: PipelineError, decision: ChunkDecision, measured: Measured, suspect: int | None
    ) -> None:
        """Record a failed attempt and do as the decision says."""
        with transaction(self._engine) as connection:
            obey(connection, claim, error, decision, suspect)
            _end_attempt(connection, claim, AttemptOutcome.FAILED, measured, error)

    def hand_back(self, claim: ChunkClaim, outcome: AttemptOutcome, measured: Measured) -> None:
        """Stop at a page border without blame: drained or paused (due again at once), or cancelled."""
        to = ChunkState.CANCELLED if outcome is AttemptOutcome.CANCELLED else ChunkState.READY
        with transaction(self._engine) as connection:
            _leave(connection, claim, to)
            _end_attempt(connection, claim, outcome, measured)
            if to is ChunkState.CANCELLED:
                count_down(connection, claim.job_id)


def obey(
    connection: Connection, claim: ChunkClaim, error: PipelineError, decision: ChunkDecision, suspect: int | None = None
) -> None:
    """Move a chunk out of a failed or lost attempt. Raises: StaleMove, if the claim is no longer the row's."""
    match decision:
        case Retry(after=after):
            counted = counter_of(error.code)
            more = {counted.value: getattr(Chunk, counted) + 1, "not_before": NOW + after}
            _leave(connection, claim, ChunkState.READY, error, more)
        case Split():
            chunk = _leave(connection, claim, ChunkState.SPLIT, error)
            children = split_range(_unfinished(connection, claim.job_id, chunk), suspect=suspect)
            _replace(connection, claim.job_id, chunk, children)
        case ReadWith(engine=engine, misfit=misfit):
            kept = misfit and asdict(misfit)
            anew = {"failures": 0, "not_before": NOW, "options": _options_with(engine), "misfit": kept}
            _leave(connection, claim, ChunkState.READY, error, anew)
            note(
                connection, "chunk.engine_changed", claim.job_id, claim.chunk_id,
                attempt=claim.attempt, engine=engine, code=error.code,
            )  # fmt: skip
        case GiveUp(code=code):
            final = PipelineError(code, error.message)
            chunk = _leave(connection, claim, ChunkState.DEAD, final)
            give_up_pages(connection, chunk, final)
            count_down(connection, claim.job_id)
        case _:
            assert_never(decision)


def give_up_pages(connection: Connection, chunk: Any, error: PipelineError) -> None:
    """Let the pages of a chunk that have no outcome end as failed, for this cause."""
    connection.execute(
        update(Page)
        .where(*_without_outcome(chunk.job_id, chunk))
        .values(
            outcome=PageOutcome.FAILED,
            chunk_id=chunk.id,
            attempt=chunk.attempt,
            error_code=error.code,
            error_detail=error.message,
        )
    )


def _misfit(row: Mapping[str, Any]) -> Misfit:
    return Misfit(**{**row, "page_class": PageClass(row["page_class"])})


def _options_with(engine: str) -> Any:
    """Return the chunk's own options, which go before its job's, with this engine."""
    # Retries of earlier versions have left JSON's null there.
    own = func.coalesce(func.nullif(Chunk.options, text("'null'::jsonb")), text("'{}'::jsonb"))
    return own.op("||")(func.jsonb_build_object("engine", engine))


def _claim_values(claim: ChunkClaim) -> dict[str, Any]:
    return {"of_chunk": claim.chunk_id, "of_attempt": claim.attempt, "of_owner": claim.owner}


def _held(claim: ChunkClaim, result: Result[Any]) -> Any:
    """Return the row of a statement that finds one only while the claim stands."""
    row = result.one_or_none()
    if row is None:
        raise StaleMove(f"chunk {claim.chunk_id} is no longer held at attempt {claim.attempt}")
    return row


def _hold(row: Any) -> Hold:
    if row.unwanted:
        return Hold.CANCEL
    return Hold.PAUSE if row.held else Hold.GO_ON


def _leave(
    connection: Connection,
    claim: ChunkClaim,
    to: ChunkState,
    error: PipelineError | None = None,
    more: Mapping[str, Any] | None = None,
) -> Any:
    """Move the chunk out of running; return its row."""
    values = {
        "state": to,
        "lease_owner": None,
        "lease_until": None,
        "dispatched_at": None,
        "error_code": error.code if error else None,
        "error_detail": error.message if error else None,
    } | dict(more or {})
    statement = update(Chunk).where(*statements.HELD).values(values).returning(Chunk)
    return _held(claim, connection.execute(statement, _claim_values(claim)))


def _end_attempt(
    connection: Connection,
    claim: ChunkClaim,
    outcome: AttemptOutcome,
    measured: Measured,
    error: PipelineError | None = None,
) -> None:
    connection.execute(
        update(ChunkAttempt)
        .where(ChunkAttempt.chunk_id == claim.chunk_id, ChunkAttempt.attempt == claim.attempt)
        .values(
            ended_at=NOW,
            outcome=outcome,
            error_code=error.code if error else None,
            error_detail=error.message if error else None,
            **asdict(measured),
        )
    )


def _without_outcome(job_id: JobId, chunk: Any) -> tuple[Any, ...]:
    return (
        Page.job_id == job_id,
        Page.number.between(chunk.first_page, chunk.last_page),
        Page.outcome.is_(None),
    )


def _unfinished(connection: Connection, job_id: JobId, chunk: Any) -> list[int]:
    statement = select(Page.number).where(*_without_outcome(job_id, chunk)).order_by(Page.number)
    return list(connection.execute(statement).scalars())


def _replace(connection: Connection, job_id: JobId, chunk: Any, children: Sequence[PageRange]) -> None:
    """Write smaller chunks in the place of one, and count them."""
    # The job's row first: it serialises the numbering of new chunks.
    connection.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(
            chunks_total=Job.chunks_total + len(children), chunks_remaining=Job.chunks_remaining + len(children) - 1
        )
    )
    highest: int = connection.execute(select(func.max(Chunk.ordinal)).where(Chunk.job_id == job_id)).scalar_one()
    pages_before = chunk.last_page - chunk.first_page + 1
    connection.execute(
        insert(Chunk),
        [
            {
                "id": chunk_id(job_id, ordinal, pages),
                "job_id": job_id,
                "ordinal": ordinal,
                "first_page": pages.first,
                "last_page": pages.last,
                "lane": chunk.lane,
                "cost_ms": chunk.cost_ms * len(pages) // pages_before,
                "options": chunk.options,
            }
            for ordinal, pages in enumerate(children, start=highest + 1)
        ],
    )


def count_down(connection: Connection, job_id: JobId) -> None:
    """Count one chunk of the job as ended; whoever reads zero makes the merge due."""
    values = {"of_job": job_id}
    if connection.execute(statements.COUNT_DOWN, values).scalar_one() == 0:
        connection.execute(statements.MAKE_MERGE_DUE, values)


def _entry_row(page: PageEntry) -> dict[str, Any]:
    return {
        "number": page.number,
        "outcome": page.outcome,
        "segment_key": page.segment_key,
        "flags": [flag_to_json(flag) for flag in page.flags],
        "confidence": page.confidence,
        "angle_deg": page.angle_deg,
        "width_px": page.width_px,
        "height_px": page.height_px,
        "dpi": page.dpi,
        "engine": page.engine,
        "revision": page.revision,
        "elapsed_ms": page.elapsed_ms,
        "error_code": page.error_code,
        "error_detail": page.error_detail,
        "digest": page.digest,
        "tokens": page.tokens,
        "reused_job": str(page.source.job_id) if page.source else None,
        "reused_page": page.source.number if page.source else None,
    }


def lost_claim(row: Any) -> ChunkClaim:
    """Return the claim that stands on a chunk's row."""
    return ChunkClaim(
        chunk_id=ChunkId(UUID(str(row.id))), job_id=JobId(row.job_id), attempt=row.attempt, owner=row.lease_owner
    )
