"""What several adapters ask of rows, each said once: the database's clock, and which jobs and chunks are meant."""

from sqlalchemy import exists, func, or_

from pipeline.adapters.tables import Chunk, Job, Tenant
from pipeline.domain.states import STEP_OF, ChunkState, JobState

NOW = func.clock_timestamp()
"""Read anew each time that it stands in a statement."""

OPEN_JOB = Job.state.not_in([str(state) for state in JobState if state.is_terminal])
STEPPING = Job.state.in_([str(state) for state in STEP_OF])
"""It waits for a step, or is at one."""
PAUSED_TENANT = exists().where(Tenant.name == Job.tenant, Tenant.paused).correlate(Job)
HELD_JOB = or_(Job.paused, Job.off_hours, PAUSED_TENANT)
"""It is to wait, for whatever reason."""

OPEN_CHUNK = Chunk.state.in_([str(state) for state in ChunkState if not state.is_terminal])
