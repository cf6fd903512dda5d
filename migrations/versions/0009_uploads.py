"""Uploads that come in parts, whoever takes which of them."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None
old_processes_may_run = True

TABLES = """
CREATE TABLE upload (
    id UUID NOT NULL,
    tenant TEXT NOT NULL,
    api_key_id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    store_id TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    part_bytes BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    completed_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (id),
    CONSTRAINT upload_idempotency UNIQUE (tenant, idempotency_key),
    CONSTRAINT upload_sizes_positive CHECK (size_bytes > 0 AND part_bytes > 0)
);
CREATE INDEX upload_open ON upload (tenant) WHERE completed_at IS NULL;
CREATE INDEX upload_by_age ON upload (created_at);

CREATE TABLE upload_part (
    upload_id UUID NOT NULL,
    number INTEGER NOT NULL,
    etag TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (upload_id, number),
    FOREIGN KEY (upload_id) REFERENCES upload (id) ON DELETE CASCADE,
    CONSTRAINT upload_part_number CHECK (number BETWEEN 1 AND 10000)
);
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(TABLES)
