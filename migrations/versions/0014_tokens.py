"""How much text engines have generated in each attempt at a chunk."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None
old_processes_may_run = True


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE chunk_attempt ADD COLUMN tokens BIGINT")
