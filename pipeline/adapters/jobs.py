"""The moves of a job, as guarded updates: from this state, at this attempt, by this owner, else nothing."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Update, func, insert, literal, or_, select, update

from pipeline.adapters.conditions import HELD_JOB, NOW
from pipeline.adapters.database import transaction
from pipeline.adapters.events import note
from pipeline.adapters.passwords import OF_JOB, password_of
from pipeline.adapters.tables import Chunk, Job, Page, Tenant
from pipeline.domain.document import JobId, PlannedChunk, chunk_id
from pipeline.domain.errors import ErrorCode, PipelineError, Rejected, StaleMove
from pipeline.domain.retry import Attempts, counter_of
from pipeline.domain.serialisation import flag_from_json, flag_to_json
from pipeline.domain.states import JOB_MOVES, STEP_OF, JobState, Step, chain_from
from pipeline.ports.documents import Inspection
from pipeline.ports.jobs import ClaimedJob, JobClaim, QueueBounds, StoredOriginal

STATE_OF = {step: state for state, step in STEP_OF.items()}


class PostgresJobSteps:
    """JobSteps over Postgres. `owner` names this process, uniquely, on the leases that it takes."""

    def __init__(self, engine: Engine, *, owner: str, lease: timedelta) -> None:
        self._engine = engine
        self._owner = owner
        self._lease = lease

    def claim(self, job_id: JobId, step: Step, attempt: int) -> ClaimedJob:
        """Take the step at this attempt, or raise StaleMove."""
        claim = JobClaim(job_id=job_id, step=step, attempt=attempt, owner=self._owner)
        statement = (
            update(Job)
            .where(
                Job.id == job_id,
                Job.state == STATE_OF[step],
                Job.attempt == attempt - 1,
                Job.lease_owner.is_(None),
                ~or_(Job.cancel_requested, HELD_JOB),
            )
            .values(attempt=attempt, lease_owner=self._owner, lease_until=NOW + self._lease, dispatched_at=NOW)
            .returning(Job, OF_JOB)
        )
        with transaction(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        if row is None:
            raise StaleMove(f"job {job_id} does not wait for {step} at attempt {attempt}")
        return ClaimedJob(
            claim=claim,
            tenant=row.tenant,
            source_uri=row.source_uri,
            upload_key=row.upload_key,
            source_name=row.source_name,
            options=row.options,
            sha256=row.sha256,
            size_bytes=row.size_bytes,
            media_type=row.media_type,
            page_count=row.page_count,
            flags=tuple(flag_from_json(flag) for flag in row.flags),
            document_key=row.document_key,
            attempts=attempts_of(row),
            created_at=row.created_at,
            password=password_of(row),
        )

    def renew(self, claim: JobClaim) -> None:
        """Extend the lease."""
        self._write(claim, {"lease_until": NOW + self._lease})

    def ingested(self, claim: JobClaim, original: StoredOriginal) -> None:
        """Move on to planning."""
        self._advance(
            claim,
            JobState.PLANNING,
            sha256=original.sha256,
            size_bytes=original.size_bytes,
            media_type=original.media_type,
        )

    def check_room(self, claim: JobClaim, bounds: QueueBounds) -> None:
        """Make sure that the queue has room for at least one page more. Raises: Rejected (`queue_full`)."""
        with transaction(self._engine) as connection:
            _check_room(connection, claim, bounds, more=1)

    def planned(
        self,
        claim: JobClaim,
        inspection: Inspection,
        chunks: Sequence[PlannedChunk],
        *,
        is_short: bool,
        bounds: QueueBounds,
    ) -> None:
        """Write all pages and chunks, which share a lane, and set the job running, in one transaction."""
        ids = {planned: chunk_id(claim.job_id, planned.ordinal, planned.pages) for planned in chunks}
        chunk_of = {number: ids[planned] for planned in chunks for number in planned.pages}
        with transaction(self._engine) as connection:
            values = {
                "page_count": inspection.page_count,
                "flags": [flag_to_json(flag) for flag in inspection.flags],
                "chunks_total": len(chunks),
                "chunks_remaining": len(chunks),
                "lane": chunks[0].lane,
                "is_short": is_short,
            }
            _guarded(connection, claim, _moved(claim, JobState.RUNNING, values))
            # After the move, which has counted the pages and locked the tenant's row: two can't both fit in one's room.
            _check_room(connection, claim, bounds, more=0)
            connection.execute(insert(Chunk), [_chunk_row(claim.job_id, ids[planned], planned) for planned in chunks])
            connection.execute(
                insert(Page),
                [
                    {
                        "job_id": claim.job_id,
                        "number": facts.number,
                        "chunk_id": chunk_of[facts.number],
                        "class": facts.page_class,
                        "source_file": facts.source_file,
                    }
                    for facts in inspection.facts
                ],
            )

    def merged(self, claim: JobClaim, document_key: str) -> None:
        """Move on to exporting."""
        self._advance(claim, JobState.EXPORTING, document_key=document_key)

    def exported(self, claim: JobClaim, result_keys: Mapping[str, str]) -> None:
        """Move on to delivering."""
        self._advance(claim, JobState.DELIVERING, result_keys=dict(result_keys))

    def end(self, claim: JobClaim, state: JobState, error: PipelineError | None = None) -> None:
        """End the job."""
        self._advance(
            claim,
            state,
            finished_at=NOW,
            error_code=error.code if error else None,
            error_detail=error.message if error else None,
        )

    def note(self, claim: JobClaim, kind: str, **detail: object) -> None:
        """Write down on the job's trail what no move says."""
        with transaction(self._engine) as connection:
            note(connection, kind, claim.job_id, None, **detail)

    def put_back(self, claim: JobClaim, error: PipelineError, after: timedelta) -> None:
        """Give the step up for now; the attempt is counted."""
        counted = counter_of(error.code)
        self._write(
            claim,
            {
                "lease_owner": None,
                "lease_until": None,
                "dispatched_at": None,
                "not_before": NOW + after,
                counted.value: getattr(Job, counted) + 1,
                "error_code": error.code,
                "error_detail": error.message,
            },
        )

    def _advance(self, claim: JobClaim, to: JobState, **values: Any) -> None:
        self._write(claim, _moved(claim, to, values))

    def _write(self, claim: JobClaim, values: dict[str, Any]) -> None:
        with transaction(self._engine) as connection:
            _guarded(connection, claim, values)


def _check_room(connection: Connection, claim: JobClaim, bounds: QueueBounds, *, more: int) -> None:
    tenant = connection.execute(select(Tenant).join(Job, Job.tenant == Tenant.name).where(Job.id == claim.job_id)).one()
    allowed = bounds.per_tenant if tenant.max_queued_pages is None else tenant.max_queued_pages
    if tenant.queued_pages + more > allowed:
        raise Rejected(
            ErrorCode.QUEUE_FULL,
            f"tenant {tenant.name} may have {allowed} pages waiting (limits.max_queued_pages_per_tenant, or its row)"
            f" and would have {tenant.queued_pages + more}: submit it again when some are done",
        )
    in_all: int = connection.execute(select(func.coalesce(func.sum(Tenant.queued_pages), 0))).scalar_one()
    if in_all + more > bounds.in_all:
        raise Rejected(
            ErrorCode.QUEUE_FULL,
            f"{bounds.in_all} pages may wait in all (limits.max_queued_pages), and {in_all + more} would: submit it"
            " again when some are done",
        )


def attempts_of(row: Any) -> Attempts:
    """Return the counts that stand on a job's or a chunk's row."""
    return Attempts(failures=row.failures, lost=row.lost, waits=row.waits)


def _moved(claim: JobClaim, to: JobState, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a move out of a finished step; the next one of its chain has already been sent."""
    if to not in JOB_MOVES[STATE_OF[claim.step]]:
        raise ValueError(f"no move from {STATE_OF[claim.step]} to {to}")
    follows_in_chain = STEP_OF.get(to) in chain_from(claim.step)
    return {
        "state": to,
        "lease_owner": None,
        "lease_until": None,
        "dispatched_at": NOW if follows_in_chain else None,
        "not_before": None,
        "failures": 0,
        "lost": 0,
        "waits": 0,
        "error_code": None,
        "error_detail": None,
    } | values


def _guarded(connection: Connection, claim: JobClaim, values: dict[str, Any]) -> None:
    statement: Update = (
        update(Job)
        .where(
            Job.id == claim.job_id,
            Job.state == STATE_OF[claim.step],
            Job.attempt == claim.attempt,
            Job.lease_owner == literal(claim.owner),
        )
        .values(values)
    )
    if connection.execute(statement).rowcount != 1:
        raise StaleMove(f"job {claim.job_id} no longer is at {claim.step}, attempt {claim.attempt}, for {claim.owner}")


def _chunk_row(job_id: JobId, id_: Any, planned: PlannedChunk) -> dict[str, Any]:
    return {
        "id": id_,
        "job_id": job_id,
        "ordinal": planned.ordinal,
        "first_page": planned.pages.first,
        "last_page": planned.pages.last,
        "lane": planned.lane,
        "cost_ms": planned.cost_ms,
    }
