"""Devices that are asked to drain, and what a runner holds after a chunk."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None
old_processes_may_run = True

TABLES = """
ALTER TABLE device ADD COLUMN drain_requested BOOLEAN DEFAULT false NOT NULL;

ALTER TABLE chunk_attempt ADD COLUMN after_bytes BIGINT;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(TABLES)
