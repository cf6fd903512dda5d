"""Builds jobs in the rows and drives them to where a test begins, by the moves that the product makes."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import text

from pipeline.adapters.admissions import PostgresAdmissions
from pipeline.adapters.chunks import PostgresChunkMoves
from pipeline.adapters.control import PostgresControl
from pipeline.adapters.database import connect, transaction
from pipeline.adapters.jobs import PostgresJobSteps
from pipeline.adapters.ledger import PostgresLedger
from pipeline.adapters.retention import PostgresRetention
from pipeline.adapters.submissions import PostgresSubmissions
from pipeline.adapters.sweeps import PostgresSweeps
from pipeline.domain.document import Lane, PageClass, PageRange, PlannedChunk
from pipeline.domain.fairness import Window
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.retention import Ages
from pipeline.domain.states import JobState, Step
from pipeline.ports.chunks import PageEntry
from pipeline.ports.control import Again, Target
from pipeline.ports.documents import Inspection
from pipeline.ports.jobs import QueueBounds, StoredOriginal
from pipeline.ports.submissions import Submission
from tests.builders import facts

LEASE = timedelta(minutes=1)
DEVICE = "here/cpu:0"
BOUNDS = QueueBounds(per_tenant=10_000, in_all=100_000)


class Rows:
    """Everything over one database."""

    def __init__(self, url, owner="worker/1"):
        self.engine = connect(url, actor=f"test {owner}")
        self.jobs = PostgresJobSteps(self.engine, owner=owner, lease=LEASE)
        self.chunks = PostgresChunkMoves(self.engine, owner=owner, lease=LEASE)
        self.admissions = PostgresAdmissions(self.engine)
        self.sweeps = PostgresSweeps(self.engine)
        self.control = PostgresControl(self.engine)
        self.ledger = PostgresLedger(self.engine)
        self.retention = self.kept()
        self.submissions = PostgresSubmissions(self.engine)

    def as_owner(self, owner):
        other = Rows.__new__(Rows)
        other.__dict__ |= self.__dict__
        other.jobs = PostgresJobSteps(self.engine, owner=owner, lease=LEASE)
        other.chunks = PostgresChunkMoves(self.engine, owner=owner, lease=LEASE)
        return other

    def kept(self, **ages):
        """Return what expires when settings say so."""
        return PostgresRetention(self.engine, Ages(**ages), devices_age=timedelta(days=7))

    def sql(self, statement, **values):
        with transaction(self.engine) as connection:
            result = connection.execute(text(statement), values)
            return result.all() if result.returns_rows else result.rowcount

    def state(self, table, id_):
        return self.sql(f"SELECT state FROM {table} WHERE id = :id", id=id_)[0].state

    def expire(self, chunk_id):
        self.sql("UPDATE chunk SET lease_until = clock_timestamp() - interval '1 s' WHERE id = :id", id=chunk_id)

    def take_jobs(self, room):
        """Admit at most this many more, whatever is in flight."""
        [(in_flight,)] = self.sql(
            "SELECT count(*) FROM job WHERE dispatched_at IS NOT NULL"
            " AND state IN ('submitted', 'planning', 'merging', 'exporting', 'delivering')"
        )
        return self.admissions.take_jobs(window(room + in_flight))

    def take_chunks(self, room, lane=Lane.CPU):
        """Admit at most this many more, whatever is in flight."""
        [(in_flight,)] = self.sql(
            "SELECT count(*) FROM chunk WHERE lane = :lane AND state IN ('admitted', 'running') AND NOT is_express",
            lane=lane,
        )
        return self.admissions.take_chunks(lane, window(room + in_flight))

    def cancel(self, job_ids):
        return self.control.cancel(Target(job_ids=tuple(job_ids)))

    def retry(self, job_ids, **again):
        return self.control.retry(job_ids, Again(**again))

    def hold_device(self):
        """Let the device that chunks are claimed for be live."""
        self.sql(
            "INSERT INTO device (id, host, name, kind, lanes, lease_owner, lease_until)"
            " VALUES (:id, 'here', 'cpu:0', 'cpu', '[\"cpu\"]', 'owner', clock_timestamp() + interval '1 hour')",
            id=DEVICE,
        )

    # --- drives

    def submitted(self, **more):
        return self.submissions.insert(Submission(source_uri="s3://archive/box-17/0001.pdf", **more))

    def ingested(self, **more):
        job_id = self.submitted(**more)
        job = self.jobs.claim(job_id, Step.INGEST, 1)
        self.jobs.ingested(job.claim, StoredOriginal(sha256="a" * 64, size_bytes=1000, media_type="application/pdf"))
        return job_id

    def running(self, *sizes, lane=Lane.CPU, is_short=False, **more):
        """Insert a job with chunks of so many pages, and admit none."""
        job_id = self.ingested(**more)
        job = self.jobs.claim(job_id, Step.SPLIT, 2)
        self.jobs.planned(
            job.claim, inspection(sum(sizes)), planned(*sizes, lane=lane), is_short=is_short, bounds=BOUNDS
        )
        return job_id

    def admitted(self, *sizes, lane=Lane.CPU, **more):
        job_id = self.running(*sizes, lane=lane, **more)
        return job_id, self.take_chunks(100, lane)

    def claimed(self, *sizes, **more):
        """Return a job and its chunks, all claimed at attempt 1."""
        job_id, due = self.admitted(*sizes, **more)
        return job_id, [self.chunks.claim(chunk.chunk_id, 1, device_id=DEVICE) for chunk in due]

    def ended(self, *sizes, **more):
        """Return a job that has succeeded, with chunks of so many pages."""
        job_id, chunks = self.claimed(*sizes, **more)
        for chunk in chunks:
            self.read(chunk)
        job = self.jobs.claim(job_id, Step.MERGE, 3)
        self.jobs.merged(job.claim, f"jobs/{job_id}/document/3/pages.jsonl")
        job = self.jobs.claim(job_id, Step.EXPORT, 4)
        self.jobs.exported(job.claim, {"text": f"jobs/{job_id}/results/4/document.txt"})
        job = self.jobs.claim(job_id, Step.DELIVER, 5)
        self.jobs.end(job.claim, JobState.SUCCEEDED)
        return job_id

    def read(self, chunk, *, outcome=PageOutcome.RECOGNISED):
        """Enter all pages of a claimed chunk and finish it."""
        from pipeline.ports.chunks import Measured

        self.chunks.record(chunk.claim, [entry(page.number, outcome=outcome) for page in chunk.pages])
        self.chunks.finish(chunk.claim, Measured())


def window(size):
    return Window(least=size, most=size, ahead_ms=0)


def inspection(pages, page_class=PageClass.SCAN):
    return Inspection(media_type="application/pdf", page_count=pages, flags=(), facts=tuple(facts(pages, page_class)))


def planned(*sizes, lane=Lane.CPU):
    chunks, first = [], 1
    for ordinal, size in enumerate(sizes):
        pages = PageRange(first=first, last=first + size - 1)
        chunks.append(PlannedChunk(ordinal=ordinal, pages=pages, lane=lane, cost_ms=1000 * size))
        first += size
    return chunks


def entry(number, *, outcome=PageOutcome.RECOGNISED, segment_key="jobs/x/00000.jsonl"):
    failed = outcome is PageOutcome.FAILED
    return PageEntry(
        number=number,
        outcome=outcome,
        segment_key=segment_key,
        flags=(),
        confidence=0.9,
        angle_deg=0.0,
        width_px=1654,
        height_px=2339,
        dpi=200.0,
        engine="rapidocr",
        revision="3.10",
        elapsed_ms=900,
        error_code="page_damaged" if failed else None,
        error_detail="it can't be decoded" if failed else None,
    )


def unknown():
    return UUID("01900000-0000-7000-8000-00000000dead")
