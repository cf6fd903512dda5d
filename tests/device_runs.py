"""A supervisor with real runners over the test's store, without queue and database; and what breaks that rule."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from pipeline.adapters.objects import S3Objects
from pipeline.domain import keys
from pipeline.domain.device_health import Health
from pipeline.domain.document import ChunkId, JobId, Lane, PageClass
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.retry import Attempts
from pipeline.engines.simulated import SimulatedEngine, Simulation
from pipeline.ports.chunks import ChunkClaim, ClaimedChunk, Measured, PageTask
from pipeline.ports.devices import ChunkEnded, PagesFinished, ReadingFailed
from pipeline.ports.documents import PageImage
from workers.runner_process import Patience, RunnerCommand
from workers.supervisor import MemoryBounds, Supervisor

MIB = 2**20
MODEL_BYTES = 300 * MIB
PAGE_BYTES = 100 * MIB
PIXELS = 800 * 400
"""Of a page of `tests.system.scan` as it is rendered."""
CAPACITY_BYTES = 1000 * MIB


def accelerator(**more):
    """A simulated device: a model of 300 MiB, pages of 100 MiB."""
    return {
        "capacity_bytes": CAPACITY_BYTES,
        "model_bytes": MODEL_BYTES,
        "bytes_per_pixel": PAGE_BYTES / PIXELS,
        **more,
    }


def supervisor(folder, *, stall=timedelta(seconds=60), gone=timedelta(seconds=30), view=None, sick_after=10_000):
    command = RunnerCommand(engine="simulated", lock=folder / "device.lock", folder=folder / "runner")
    return Supervisor(
        "here/cuda:0",
        command,
        Patience(warm_up=timedelta(seconds=120), stall=stall, stop=timedelta(seconds=20), gone=gone),
        flush_pages=4,
        bounds=MemoryBounds(most_bytes=4 * 1024 * MIB, tolerance_bytes=PAGE_BYTES // 2),
        health=Health(sick_after=sick_after, probe_every=timedelta(seconds=1)),
        view=Simulation.from_environment().device("cuda:0") if view is None else view,
    )


def store(settings, path):
    """Put a document where runners look for it; return its hash and size."""
    from hashlib import sha256

    content = path.read_bytes()
    digest = sha256(content).hexdigest()
    S3Objects(settings.objects).put(keys.original(digest), content, media_type="application/pdf")
    return digest, len(content)


def chunk(original, *pages, failures=0):
    sha256, size_bytes = original
    return ClaimedChunk(
        claim=ChunkClaim(chunk_id=ChunkId(uuid4()), job_id=JobId(uuid4()), attempt=1 + failures, owner="test"),
        lane=Lane.CPU,
        pages=tuple(PageTask(number=number, page_class=PageClass.SCAN) for number in pages),
        sha256=sha256,
        size_bytes=size_bytes,
        options={},
        attempts=Attempts(failures=failures),
        password=None,
    )


@dataclass
class Seen:
    """What came of chunks that were read one after the other."""

    outcomes: Counter = field(default_factory=Counter)
    """`done`, or the code of the failure."""
    pages: list = field(default_factory=list)
    """Numbers and outcomes, in the order of their coming."""
    claims: list = field(default_factory=list)
    """What was held of the device when each chunk was claimed."""
    measured: list = field(default_factory=list)


def read_all(device, chunks, held_bytes):
    """Do what a device worker does, for chunks of which each is claimed when the device is ready."""
    seen = Seen()
    for one in chunks:
        device.make_ready()
        seen.claims.append(held_bytes())
        try:
            with closing(device.read(one)) as events:
                for event in events:
                    if isinstance(event, PagesFinished):
                        seen.pages += [(page.number, str(page.outcome)) for page in event.pages]
                    if isinstance(event, ChunkEnded):
                        seen.outcomes["done"] += 1
                        seen.measured.append(event.measured)
        except ReadingFailed as error:
            seen.outcomes[str(error.code)] += 1
            seen.measured.append(error.measured)
        except PipelineError as error:
            seen.outcomes[str(error.code)] += 1
    return seen


@dataclass
class InTheWorker:
    """A device that computes in the process that claims, and keeps its last failure as Celery's pool does."""

    engine: SimulatedEngine
    page: PageImage
    kept: BaseException | None = None

    def make_ready(self):
        self.engine.warm_up()

    def read(self, chunk):
        try:
            list(self.engine.read([self.page]))
        except Exception as error:
            # billiard holds on to the ExceptionInfo of a job until its next one has ended.
            self.kept = error
            raise PipelineError(ErrorCode.INTERNAL, "it broke") from None
        yield ChunkEnded(stopped=False, measured=Measured())
