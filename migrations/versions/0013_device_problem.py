"""Why a device takes nothing, and what others leave of its memory."""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None
old_processes_may_run = True


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE device ADD COLUMN free_bytes BIGINT, ADD COLUMN problem TEXT")
