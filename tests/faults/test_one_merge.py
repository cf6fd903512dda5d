"""200 chunks end at once, each is said to have ended twice, and many dispatchers look: there is one merge."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from pipeline.adapters.admissions import PostgresAdmissions
from pipeline.adapters.chunks import PostgresChunkMoves
from pipeline.adapters.database import connect
from pipeline.domain import keys
from pipeline.domain.document import Lane
from pipeline.domain.errors import StaleMove
from pipeline.domain.serialisation import encode_segment
from pipeline.domain.states import JobState, Step
from pipeline.ports.chunks import Measured
from tests.builders import block, page
from tests.rows import window
from tests.system import scan
from tests.waiting import eventually
from workers.runner import SEGMENT_MEDIA_TYPE, entry_of

CHUNKS, THREADS = 200, 16


@pytest.fixture
def engine(database_url):
    engine = connect(database_url, actor="test", pool_size=THREADS)
    yield engine
    engine.dispose()


def read(system, moves, due):
    """Do as a device does, up to the end of the chunk; return its claim."""
    chunk = moves.claim(due.chunk_id, due.attempt, device_id=f"test/{due.chunk_id}")
    claim = chunk.claim
    pages = [page(task.number, block(f"page {task.number}"), chunk_id=claim.chunk_id) for task in chunk.pages]
    key = keys.segment(claim.job_id, claim.chunk_id, claim.attempt, 0)
    system.objects.put(key, encode_segment(pages), media_type=SEGMENT_MEDIA_TYPE)
    moves.record(claim, [entry_of(result, key) for result in pages])
    return claim


def finish(moves, claim):
    try:
        moves.finish(claim, Measured())
    except StaleMove:
        return 0
    return 1


def test_every_finish_sent_twice_makes_one_merge(system, tmp_path, engine):
    system.environment["MUNIMENT_CHUNKS__MAX_PAGES"] = "1"
    system.start(slots=0)
    job_id = system.submit(scan(tmp_path, CHUNKS, size=(60, 40)))
    eventually(lambda: system.status(job_id).state is JobState.RUNNING)
    system.kill("dispatcher0")
    system.rows.sql("UPDATE chunk SET state = 'ready', dispatched_at = NULL")
    moves = PostgresChunkMoves(engine, owner="test", lease=timedelta(minutes=10))
    admissions = PostgresAdmissions(engine)
    due = admissions.take_chunks(Lane.CPU, window(CHUNKS))
    with ThreadPoolExecutor(THREADS) as pool:
        claims = list(pool.map(lambda due: read(system, moves, due), due))
        twice = random.Random(1).sample(claims * 2, 2 * CHUNKS)
        assert sum(pool.map(lambda claim: finish(moves, claim), twice)) == CHUNKS
        found = [
            taken
            for many in pool.map(lambda _: admissions.take_jobs(window(THREADS)), range(THREADS))
            for taken in many
        ]
    assert [(taken.job_id, taken.step) for taken in found] == [(job_id, Step.MERGE)]
    system.spawn_dispatcher(0)
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, CHUNKS)
