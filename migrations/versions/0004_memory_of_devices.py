"""What an attempt at a chunk took of its device and of its host, what was expected, and what was learnt of both."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
old_processes_may_run = True

TABLES = """
ALTER TABLE chunk_attempt
    ADD COLUMN reserved_bytes BIGINT,
    ADD COLUMN used_bytes BIGINT,
    ADD COLUMN resident_bytes BIGINT,
    ADD COLUMN planned_bytes BIGINT;

CREATE TABLE engine_memory (
    engine TEXT NOT NULL,
    revision TEXT NOT NULL,
    device TEXT NOT NULL,
    page_class TEXT NOT NULL,
    pages INTEGER,
    pixels BIGINT,
    page_pixels BIGINT,
    lowered_at TIMESTAMP WITH TIME ZONE,
    correction DOUBLE PRECISION,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (engine, revision, device, page_class),
    CONSTRAINT engine_memory_bound_whole CHECK (
        (pages IS NULL) = (lowered_at IS NULL) AND (pixels IS NULL) = (lowered_at IS NULL)),
    CONSTRAINT engine_memory_correction_positive CHECK (correction > 0)
);
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(TABLES)
