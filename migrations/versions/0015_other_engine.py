"""Which engine reads a class of pages for which another one had no memory, for the next pages to begin with it."""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None
old_processes_may_run = True

OTHER = """
ALTER TABLE chunk ADD COLUMN misfit JSONB;
ALTER TABLE engine_memory
    ADD COLUMN other_engine TEXT,
    ADD COLUMN other_at TIMESTAMPTZ,
    ADD CONSTRAINT engine_memory_other_whole CHECK ((other_engine IS NULL) = (other_at IS NULL));
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(OTHER)
