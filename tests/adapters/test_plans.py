"""No statement that dispatchers and workers run all the time reads a whole table, however small the tables are here."""

from datetime import timedelta

from pipeline.adapters.deliveries import PostgresDeliveries
from pipeline.adapters.delivery_log import PostgresDeliveryLog
from pipeline.adapters.forecasts import PostgresForecasts
from pipeline.adapters.reasons import PostgresReasons
from pipeline.domain.document import Lane
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.retention import Kept
from pipeline.domain.retry import Retry
from pipeline.domain.states import Step
from pipeline.domain.webhooks import Again, DeliveryError, Result
from pipeline.ports.chunks import Measured
from pipeline.ports.control import Change, Target
from pipeline.ports.dispatch import Patience
from tests.rows import DEVICE, window
from tests.statements import plans, recorded

LARGE = ("job", "chunk", "page", "event", "chunk_attempt", "delivery", "delivery_attempt", "endpoint")
AT_ONCE = timedelta(0)


AS_IF_LARGE = "SET enable_seqscan = off; SET enable_sort = off; SET enable_incremental_sort = off"
"""As if reading whole tables and sorting them were as slow here as on large ones."""


def reads_whole(plan):
    return [table for table in LARGE if f"Seq Scan on {table}" in plan]


def everything(rows):
    """Do once what is done all the time."""
    job_id = rows.running(2, 1, 1)
    rows.running(1, is_short=True)
    rows.admissions.take_jobs(window(4))
    rows.admissions.take_express(Lane.CPU, window(1))
    rows.admissions.pace(Lane.CPU)
    PostgresForecasts(rows.engine).of([job_id])
    PostgresReasons(rows.engine).waits_for([job_id])
    first, second, *_ = [
        rows.chunks.claim(due.chunk_id, due.attempt, device_id=DEVICE)
        for due in rows.admissions.take_chunks(Lane.CPU, window(4))
    ]
    rows.chunks.renew(first.claim)
    rows.chunks.look(first.claim)
    rows.read(first)
    rows.chunks.fail(
        second.claim, PipelineError(ErrorCode.INTERNAL, "no"), Retry(after=AT_ONCE), Measured(), suspect=None
    )
    step = rows.submitted()
    rows.admissions.take_jobs(window(4))
    claim = rows.jobs.claim(step, Step.INGEST, 1).claim
    rows.jobs.renew(claim)
    rows.sweeps.expired_chunks()
    rows.sweeps.reclaim_steps(3)
    rows.sweeps.end_unwanted()
    rows.sweeps.turn_hours()
    rows.sweeps.recall_held()
    rows.sweeps.audit(job_id, Patience(longest_job=timedelta(days=1), longest_wait=timedelta(days=1)))
    rows.sweeps.unstarted_jobs(AT_ONCE)
    rows.sweeps.unstarted_chunks(Lane.CPU, AT_ONCE)
    for what in Kept:
        rows.kept(**{what.value: AT_ONCE}).expired(what, 50)
    rows.retention.wanted(["uploads/1"])
    rows.cancel([job_id])
    rows.sweeps.end_unwanted()
    rows.control.change(Target(label="box-17"), Change(paused=True))
    rows.submissions.find([job_id])
    rows.submissions.latest(20)
    rows.submissions.events(job_id, 20)
    list(rows.ledger.pages(job_id))
    webhooks(rows)


def webhooks(rows):
    rows.ended(1, callback_url="https://museum.test/")
    queue = PostgresDeliveries(
        rows.engine, lease=timedelta(minutes=1), per_tenant=4, max_tries=16, keep_trying=timedelta(days=3)
    )
    result = Result(status=None, error=DeliveryError.TIMED_OUT, elapsed_ms=10_000)
    queue.record(queue.take(), result, Again(after=AT_ONCE), rest=AT_ONCE)
    queue.tidy()
    PostgresDeliveryLog(rows.engine).latest(20, tenant="museum")


def test_every_hot_statement_finds_its_rows_by_an_index(rows):
    with recorded(rows.engine) as statements:
        everything(rows)
    assert len(statements) > 30
    explained = dict(plans(rows.engine, statements, under=AS_IF_LARGE))
    assert {statement: plan for statement, plan in explained.items() if reads_whole(plan)} == {}


def test_admission_takes_its_order_from_the_index(rows):
    with recorded(rows.engine) as statements:
        everything(rows)
    admissions = [
        plan for statement, plan in plans(rows.engine, statements, under=AS_IF_LARGE) if "SKIP LOCKED" in statement
    ]
    assert len(admissions) >= 3
    for plan in admissions:
        assert "Sort" not in plan, plan
