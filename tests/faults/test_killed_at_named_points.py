"""kill -9 just before and just after each write that matters, once each, over the life of a few documents."""

import pytest

from pipeline.domain.states import JobState
from tests.faults.injection import Point, struck_at
from tests.system import scan

JOBS, CHUNKS = "pipeline.adapters.jobs.PostgresJobSteps", "pipeline.adapters.chunks.PostgresChunkMoves"
CHAINS = "workers.chains.CeleryChains"
OF_STEPS = [f"{JOBS}.{move}" for move in ("claim", "ingested", "planned", "merged", "exported", "end")]
OF_CHUNKS = [f"{CHUNKS}.{move}" for move in ("claim", "record", "finish")]
OF_DISPATCH = [f"{CHAINS}.{move}" for move in ("send_job", "send_chunk")]
OF_RUNNERS = [
    "pipeline.engines.simulated.SimulatedEngine.warm_up",
    "pipeline.steps.read_pages.PageReader.prepare",
    # A segment is in the store, and the rows don't know of it.
    "pipeline.adapters.objects.S3Objects.put",
]


@pytest.mark.parametrize(
    ("program", "methods"),
    [
        ("workers.worker", OF_STEPS),
        ("workers.worker", OF_CHUNKS),
        ("workers.dispatcher", OF_DISPATCH),
        ("workers.runner", OF_RUNNERS),
    ],
    ids=["steps", "chunks", "dispatch", "runner"],
)
def test_killed_at_every_point_once(system, tmp_path, program, methods):
    points = [Point(program=program, at=method, when=when) for method in methods for when in ("before", "after")]
    system.environment.update(struck_at(points, tmp_path))
    system.environment["MUNIMENT_LEASES__STEP"] = "PT10S"
    system.start()
    jobs = [system.submit(scan(tmp_path, 12, name=f"{number}.pdf")) for number in range(4)]
    for job_id in jobs:
        assert system.finished(job_id, within=240, supervised=True).state is JobState.SUCCEEDED
    # Not before all have ended: an attempt that was lost and not yet taken back looks as if it went on.
    for job_id in jobs:
        system.assert_whole(job_id, 12)
    assert [point for point in points if not point.mark(tmp_path).exists()] == []
