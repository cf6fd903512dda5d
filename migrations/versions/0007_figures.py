"""Indexes for what is counted all the time: attempts that ended lately, chunks that died."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None
old_processes_may_run = True

INDEXES = """
CREATE INDEX chunk_attempt_ended ON chunk_attempt (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX chunk_dead ON chunk (lane) WHERE state = 'dead';
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(INDEXES)
