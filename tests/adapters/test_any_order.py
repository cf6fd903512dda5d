"""Any sequence of events over the real rows: messages lost, doubled and late, holders that die and come back, people
who change their minds. Nothing is done twice, and from wherever that leaves the rows the usual moves lead to an end.
"""

from contextlib import suppress
from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from pipeline.domain.errors import ErrorCode, PipelineError, StaleMove
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.retry import AttemptLimits, Retry, decide
from pipeline.domain.states import AttemptOutcome, JobState, Step, chain_from
from pipeline.ports.chunks import Measured
from pipeline.ports.control import Change, Target
from pipeline.ports.dispatch import DueJob, Patience
from pipeline.ports.jobs import StoredOriginal
from pipeline.steps.admit import Admit, Windows
from pipeline.steps.sweep import Sweep
from tests.builders import STEADY
from tests.rows import BOUNDS, DEVICE, entry, inspection, planned

LIMITS = AttemptLimits(max_attempts=2, max_lost=3, max_waits=3)
CODES = [ErrorCode.PROCESS_DIED, ErrorCode.STORE_UNAVAILABLE, ErrorCode.PAGE_DAMAGED, ErrorCode.INTERNAL]
PICK = st.integers(0, 999)
"""Which of several: drawn whatever there is to pick from, since what is due depends on the time, too."""
SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=3)


class Broker:
    """Keeps every message that was ever sent: any of them may come at any time, and again."""

    def __init__(self):
        self.messages = []

    def send_job(self, due):
        self.messages += [
            DueJob(job_id=due.job_id, step=step, attempt=due.attempt + later)
            for later, step in enumerate(chain_from(due.step))
        ]

    def send_chunk(self, due):
        self.messages.append(due)

    def depth(self, _queue):
        return 0


class AnyOrder(RuleBasedStateMachine):
    """What may happen to rows."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        rows.sql("TRUNCATE job, chunk, chunk_attempt, page, event, tenant, batch, turn CASCADE")
        self.broker = Broker()
        admit = Admit(
            rows=rows.admissions,
            queue=self.broker,
            windows=Windows(io=4, per_slot=2, most_per_slot=4, ahead=timedelta(seconds=2), short_share=0.5),
            check_services=lambda: None,
        )
        self.admit = admit
        self.sweep = Sweep(
            rows=rows.sweeps,
            queue=self.broker,
            admit=admit,
            limits=LIMITS,
            patience=Patience(longest_job=timedelta(days=1), longest_wait=timedelta(days=1)),
            resend_after=timedelta(0),
            jitter=lambda: 0.0,
        )
        self.held = []
        """Claims of chunks that somebody believes to hold, and the pages that it has still to do."""
        self.results = {}
        """What was accepted: by job and page, which attempt at which chunk."""
        self.jobs = []

    # --- people

    @rule(tenant=st.sampled_from(["a", "b"]), priority=st.integers(0, 1))
    def someone_submits(self, tenant, priority):
        if len(self.jobs) < 4:
            self.jobs.append(self.rows.submitted(tenant=tenant, priority=priority, label="box"))

    @rule(pick=PICK, paused=st.booleans())
    def someone_holds_or_releases(self, pick, paused):
        targets = [Target(label="box", tenant="a"), Target(tenant="b"), *([self.one(pick)] if self.jobs else [])]
        target = targets[pick % len(targets)]
        self.rows.control.change(target, Change(paused=paused))

    @rule(pick=PICK)
    def someone_cancels(self, pick):
        if self.jobs:
            self.rows.control.cancel(self.one(pick))

    @rule(pick=PICK, all_of_it=st.booleans())
    def someone_retries(self, pick, all_of_it):
        chosen = self.one(pick).job_ids if self.jobs else ()
        for job_id in self.rows.retry(chosen, from_the_beginning=all_of_it):
            kept = {page.number for page in self.rows.ledger.pages(job_id) if page.outcome is not None}
            self.results = {key: by for key, by in self.results.items() if key[0] != job_id or key[1] in kept}

    def one(self, pick):
        return Target(job_ids=(self.jobs[pick % len(self.jobs)],))

    # --- the dispatcher

    @rule()
    def a_dispatcher_admits(self):
        self.admit()

    @rule()
    def a_dispatcher_sweeps(self):
        self.sweep()

    @rule()
    def the_broker_forgets_everything(self):
        self.broker.messages.clear()

    @rule()
    def time_passes(self):
        """All leases run out, and everything that waits for its time is due."""
        for table in ("job", "chunk"):
            past = "clock_timestamp() - interval '1 s'"
            self.rows.sql(f"UPDATE {table} SET lease_until = {past} WHERE lease_until IS NOT NULL")
            self.rows.sql(f"UPDATE {table} SET not_before = NULL, dispatched_at = dispatched_at - interval '1 min'")

    # --- workers

    @rule(pick=PICK, sizes=SIZES)
    def a_message_comes(self, pick, sizes):
        if self.broker.messages:
            self.receive(self.broker.messages[pick % len(self.broker.messages)], sizes)

    def receive(self, message, sizes):
        with suppress(StaleMove):
            if isinstance(message, DueJob):
                self.do_step(message, sizes)
            else:
                chunk = self.rows.chunks.claim(message.chunk_id, message.attempt, device_id=DEVICE)
                self.held.append((chunk, [page.number for page in chunk.pages]))

    def do_step(self, message, sizes):
        moves, claim = self.rows.jobs, self.rows.jobs.claim(message.job_id, message.step, message.attempt).claim
        match message.step:
            case Step.INGEST:
                moves.ingested(claim, StoredOriginal(sha256="a" * 64, size_bytes=1, media_type="application/pdf"))
            case Step.SPLIT:
                chunks = planned(*sizes)
                moves.planned(claim, inspection(sum(sizes)), chunks, is_short=sum(sizes) == 1, bounds=BOUNDS)
            case Step.MERGE:
                assert all(page.outcome for page in self.rows.ledger.pages(message.job_id))
                moves.merged(claim, "jobs/x/pages.jsonl")
            case Step.EXPORT:
                moves.exported(claim, {"json": "jobs/x/document.json"})
            case Step.DELIVER:
                failed = PageOutcome.FAILED in self.rows.ledger.outcomes(message.job_id)
                moves.end(claim, JobState.PARTIAL if failed else JobState.SUCCEEDED)

    @rule(pick=PICK)
    def a_worker_dies_in_a_step(self, pick):
        message = self.broker.messages[pick % len(self.broker.messages)] if self.broker.messages else None
        if isinstance(message, DueJob):
            with suppress(StaleMove):
                self.rows.jobs.claim(message.job_id, message.step, message.attempt)

    @rule(pick=PICK, pages=st.integers(1, 3))
    def pages_are_finished(self, pick, pages):
        if self.held:
            self.record(*self.held[pick % len(self.held)], pages)

    def record(self, chunk, left, pages):
        now, left[:] = left[:pages], left[pages:]
        if not now:
            return
        with suppress(StaleMove):
            self.rows.chunks.record(chunk.claim, [entry(number) for number in now])
            for number in now:
                key = (chunk.claim.job_id, number)
                assert key not in self.results, "a page was done twice"
                self.results[key] = (chunk.claim.chunk_id, chunk.claim.attempt)

    @rule(pick=PICK)
    def a_chunk_is_finished(self, pick):
        if self.held:
            self.finish(*self.held[pick % len(self.held)])

    def finish(self, chunk, left):
        self.record(chunk, left, len(left))
        with suppress(StaleMove):
            self.rows.chunks.finish(chunk.claim, Measured())

    @rule(pick=PICK, code=st.sampled_from(CODES))
    def a_chunk_fails(self, pick, code):
        if not self.held:
            return
        chunk, left = self.held[pick % len(self.held)]
        decision = decide(code, attempts=chunk.attempts.and_one(code), pages_left=len(left), limits=LIMITS, jitter=0.0)
        if not left:
            decision = Retry(after=timedelta(0))
        with suppress(StaleMove):
            self.rows.chunks.fail(chunk.claim, PipelineError(code, "for this test"), decision, Measured(), None)

    @rule(
        pick=PICK,
        outcome=st.sampled_from([AttemptOutcome.DRAINED, AttemptOutcome.PAUSED, AttemptOutcome.CANCELLED]),
    )
    def a_chunk_is_handed_back(self, pick, outcome):
        if not self.held:
            return
        chunk, _ = self.held[pick % len(self.held)]
        if outcome is AttemptOutcome.CANCELLED:
            # Only where somebody asked for it does a worker hand back so.
            self.rows.control.cancel(Target(job_ids=(chunk.claim.job_id,)))
        with suppress(StaleMove):
            self.rows.chunks.hand_back(chunk.claim, outcome, Measured())

    # --- what always holds

    @invariant()
    def what_remains_is_counted(self):
        wrong = self.rows.sql("""
            SELECT id FROM job WHERE state = 'running' AND NOT cancel_requested AND chunks_remaining <> (
                SELECT count(*) FROM chunk WHERE job_id = job.id AND state IN ('ready', 'admitted', 'running'))
        """)
        assert wrong == []

    @invariant()
    def accepted_results_stay(self):
        ledger = {
            (row.job_id, row.number): (row.chunk_id, row.attempt)
            for row in self.rows.sql("SELECT job_id, number, chunk_id, attempt FROM page WHERE segment_key IS NOT NULL")
        }
        assert ledger == self.results

    @invariant()
    def queued_pages_are_counted(self):
        wrong = self.rows.sql("""
            SELECT name FROM tenant WHERE queued_pages <> (
                SELECT coalesce(sum(page_count), 0) FROM job WHERE job.tenant = tenant.name AND finished_at IS NULL)
        """)
        assert wrong == []

    @invariant()
    def no_chunk_has_two_attempts_open(self):
        twice = self.rows.sql(
            "SELECT chunk_id FROM chunk_attempt WHERE ended_at IS NULL GROUP BY chunk_id HAVING count(*) > 1"
        )
        assert twice == []

    # --- from here on all is well

    def teardown(self):
        """With nobody holding anything back, every job ends, and what ends well is whole."""
        for tenant in ("a", "b"):
            self.rows.control.change(Target(tenant=tenant), Change(paused=False))
            self.rows.control.change(Target(tenant=tenant, label="box"), Change(paused=True))
            self.rows.control.change(Target(tenant=tenant, label="box"), Change(paused=False))
        for _ in range(60):
            if not self.rows.sql("SELECT 1 FROM job WHERE finished_at IS NULL"):
                break
            self.time_passes()
            self.sweep()
            self.admit()
            for message in list(self.broker.messages):
                self.receive(message, [2])
            for chunk, left in self.held:
                self.finish(chunk, left)
        assert self.rows.sql("SELECT id, state FROM job WHERE finished_at IS NULL") == []
        assert (
            self.rows.sql("""
            SELECT job.id FROM job JOIN page ON page.job_id = job.id
            WHERE job.state IN ('succeeded', 'partial') AND page.outcome IS NULL
        """)
            == []
        )


def test_no_sequence_of_events_leaves_a_document_stuck_or_done_twice(rows):
    run_state_machine_as_test(
        lambda: AnyOrder(rows),
        settings=settings(
            STEADY, max_examples=12, stateful_step_count=40, suppress_health_check=list(HealthCheck), print_blob=True
        ),
    )
