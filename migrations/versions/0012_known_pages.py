"""Pages by what they look like, so that none is read twice for one tenant; and from where a page was taken over."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None
old_processes_may_run = True

KNOWN = """
ALTER TABLE page ADD COLUMN reused_job UUID;
ALTER TABLE page ADD COLUMN reused_page INTEGER;
ALTER TABLE page ADD CONSTRAINT page_reused_whole CHECK ((reused_job IS NULL) = (reused_page IS NULL));

CREATE TABLE known_page (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    job_id UUID NOT NULL,
    number INTEGER NOT NULL,
    read_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (tenant, digest),
    CONSTRAINT known_page_of FOREIGN KEY (job_id, number) REFERENCES page (job_id, number) ON DELETE CASCADE
);
CREATE INDEX known_page_by_page ON known_page (job_id, number);
CREATE INDEX known_page_by_age ON known_page (read_at);
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(KNOWN)
