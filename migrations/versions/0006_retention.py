"""How long what is kept of ended jobs stays, by tenant, and what has gone; a trail that outlives its job."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
old_processes_may_run = True

TABLES = """
ALTER TABLE tenant
    ADD COLUMN keep_originals INTERVAL,
    ADD COLUMN keep_page_images INTERVAL,
    ADD COLUMN keep_segments INTERVAL,
    ADD COLUMN keep_results INTERVAL,
    ADD COLUMN keep_rows INTERVAL,
    ADD CONSTRAINT tenant_ages_in_range CHECK (
        least(keep_originals, keep_page_images, keep_segments, keep_results, keep_rows) >= INTERVAL '0'
        AND greatest(keep_originals, keep_page_images, keep_segments, keep_results, keep_rows)
            <= INTERVAL '1000 years');

ALTER TABLE job
    ADD COLUMN original_removed_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN page_images_removed_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN segments_removed_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN results_removed_at TIMESTAMP WITH TIME ZONE;

CREATE INDEX job_ended ON job (tenant, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX job_with_original ON job (tenant, finished_at)
    WHERE finished_at IS NOT NULL AND original_removed_at IS NULL AND sha256 IS NOT NULL;
CREATE INDEX job_with_page_images ON job (tenant, finished_at)
    WHERE finished_at IS NOT NULL AND page_images_removed_at IS NULL;
CREATE INDEX job_with_segments ON job (tenant, finished_at)
    WHERE finished_at IS NOT NULL AND segments_removed_at IS NULL;
CREATE INDEX job_with_results ON job (tenant, finished_at)
    WHERE finished_at IS NOT NULL AND results_removed_at IS NULL;
CREATE INDEX job_by_upload ON job (upload_key)
    WHERE upload_key IS NOT NULL AND NOT state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled');
"""

# Whether anybody else has an original, and a trail that stays when its job goes.
REMOVAL = """
CREATE INDEX job_by_content ON job (sha256) WHERE sha256 IS NOT NULL;

ALTER TABLE event DROP CONSTRAINT event_job_id_fkey;

CREATE FUNCTION muniment_hold_content() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(NEW.sha256, 0));
    RETURN NEW;
END $$;

CREATE TRIGGER job_holds_content BEFORE UPDATE OF sha256 ON job FOR EACH ROW
    WHEN (NEW.sha256 IS NOT NULL AND NEW.sha256 IS DISTINCT FROM OLD.sha256) EXECUTE FUNCTION muniment_hold_content();
"""


def upgrade() -> None:
    for part in (TABLES, REMOVAL):
        op.get_bind().exec_driver_sql(part)
