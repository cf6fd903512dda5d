"""Which file of an archive a page comes from."""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None
old_processes_may_run = True


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE page ADD COLUMN source_file TEXT")
