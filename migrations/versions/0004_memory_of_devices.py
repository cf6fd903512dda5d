"""What an attempt at a chunk took of its device and of its host, beside what it was expected to take."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = """
ALTER TABLE chunk_attempt
    ADD COLUMN reserved_bytes BIGINT,
    ADD COLUMN used_bytes BIGINT,
    ADD COLUMN resident_bytes BIGINT,
    ADD COLUMN planned_bytes BIGINT;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(TABLES)
