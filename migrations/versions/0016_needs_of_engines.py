"""What engines need of a device's memory, so that chunks can be planned where their models are not."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None
old_processes_may_run = True


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE device ADD COLUMN needs JSONB")
