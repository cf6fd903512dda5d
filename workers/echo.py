"""Sends messages for rows that it is told of on standard input, as the dispatcher does: for drills.

A line is a JSON object with `attempt` and `job_id`, and `step` for a job's step or `chunk_id` and `lane` for a chunk.
"""

import json
import sys
from uuid import UUID

import structlog

from pipeline.domain.document import ChunkId, JobId, Lane
from pipeline.domain.errors import Transient
from pipeline.domain.states import Step
from pipeline.logs import configure_logs
from pipeline.ports.dispatch import DueChunk, DueJob
from pipeline.settings import read_settings
from workers.app import create_app
from workers.chains import CeleryChains

log = structlog.get_logger()


def send(chains: CeleryChains, line: str) -> None:
    """Send one message."""
    told = json.loads(line)
    job_id, attempt = JobId(UUID(told["job_id"])), int(told["attempt"])
    if "step" in told:
        chains.send_job(DueJob(job_id=job_id, step=Step(told["step"]), attempt=attempt))
    else:
        chunk_id, lane = ChunkId(UUID(told["chunk_id"])), Lane(told["lane"])
        chains.send_chunk(DueChunk(chunk_id=chunk_id, job_id=job_id, lane=lane, attempt=attempt))


def main() -> int:
    """Send until there is no more input; what the broker does not take is dropped, as any message may be."""
    settings = read_settings()
    configure_logs(settings.log, worker="echo")
    chains = CeleryChains(create_app(settings))
    for line in sys.stdin:
        try:
            send(chains, line)
        except Transient as error:
            log.warning("echo_not_sent", code=error.code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
