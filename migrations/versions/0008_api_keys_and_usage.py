"""Keys of the API, usage by day, removals, and a trail that tells of keys and devices, too."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None
old_processes_may_run = True

TABLES = """
CREATE TABLE api_key (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    secret_sha256 TEXT NOT NULL,
    scopes JSONB NOT NULL,
    networks JSONB DEFAULT '[]'::jsonb NOT NULL,
    requests_per_minute INTEGER,
    pages_per_day BIGINT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (id),
    CONSTRAINT api_key_secret_is_hashed CHECK (secret_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT api_key_scopes_known
        CHECK (jsonb_array_length(scopes) > 0 AND scopes <@ '["submit", "read", "act", "admin"]'::jsonb),
    CONSTRAINT api_key_bounds_positive CHECK (requests_per_minute > 0 AND pages_per_day >= 0)
);

CREATE TABLE usage (
    day DATE NOT NULL,
    tenant TEXT NOT NULL,
    api_key_id TEXT DEFAULT '' NOT NULL,
    documents BIGINT NOT NULL,
    pages BIGINT NOT NULL,
    PRIMARY KEY (day, tenant, api_key_id)
);

CREATE TABLE removal (
    job_id UUID NOT NULL,
    upload_key TEXT,
    sha256 TEXT,
    removed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (job_id)
);

ALTER TABLE job ADD COLUMN api_key_id TEXT;

DROP INDEX job_by_tenant;
CREATE INDEX job_by_tenant ON job (tenant, id);
CREATE INDEX job_unplanned_by_key ON job (api_key_id) WHERE api_key_id IS NOT NULL AND page_count IS NULL
    AND NOT state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled');

ALTER TABLE event ALTER COLUMN job_id DROP NOT NULL;
CREATE INDEX event_of_no_job ON event (id) WHERE job_id IS NULL;
"""

USAGE = """
CREATE FUNCTION muniment_count_usage() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO usage (day, tenant, api_key_id, documents, pages) VALUES (
        (clock_timestamp() AT TIME ZONE 'UTC')::date, NEW.tenant, coalesce(NEW.api_key_id, ''), 1, NEW.page_count)
    ON CONFLICT (day, tenant, api_key_id) DO UPDATE
        SET documents = usage.documents + 1, pages = usage.pages + excluded.pages;
    RETURN NULL;
END $$;

CREATE TRIGGER job_usage_counted AFTER UPDATE OF page_count ON job FOR EACH ROW
    WHEN (OLD.page_count IS NULL AND NEW.page_count IS NOT NULL) EXECUTE FUNCTION muniment_count_usage();
"""

# Who did it is the connection's application_name: the API sets it to the key and the address for each act.
AUDIT = """
CREATE FUNCTION muniment_record_act() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    who text := coalesce(nullif(current_setting('application_name'), ''), session_user);
BEGIN
    IF TG_TABLE_NAME = 'api_key' THEN
        INSERT INTO event (actor, kind, detail) VALUES (who,
            CASE WHEN TG_OP = 'INSERT' THEN 'key.created' WHEN TG_OP = 'DELETE' THEN 'key.removed'
                WHEN NEW.revoked_at IS NOT NULL THEN 'key.revoked' ELSE 'key.changed' END,
            jsonb_build_object('key', coalesce(NEW.id, OLD.id), 'tenant', coalesce(NEW.tenant, OLD.tenant)));
    ELSE
        INSERT INTO event (actor, kind, detail) VALUES (who,
            CASE WHEN NEW.drain_requested THEN 'device.drained' ELSE 'device.resumed' END,
            jsonb_build_object('device', NEW.id));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER api_key_made AFTER INSERT OR DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION muniment_record_act();
CREATE TRIGGER api_key_changed AFTER UPDATE ON api_key FOR EACH ROW
    WHEN ((to_jsonb(OLD) - 'last_used_at') IS DISTINCT FROM (to_jsonb(NEW) - 'last_used_at'))
    EXECUTE FUNCTION muniment_record_act();
CREATE TRIGGER device_drain_asked AFTER UPDATE OF drain_requested ON device FOR EACH ROW
    WHEN (OLD.drain_requested <> NEW.drain_requested) EXECUTE FUNCTION muniment_record_act();
"""

# For those who watch jobs: which one has moved. Moves of chunks are seen by counting pages.
BELL = """
CREATE FUNCTION muniment_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('muniment_job', NEW.job_id::text);
    RETURN NULL;
END $$;

CREATE TRIGGER event_told AFTER INSERT ON event FOR EACH ROW WHEN (starts_with(NEW.kind, 'job.'))
    EXECUTE FUNCTION muniment_tell();
"""


def upgrade() -> None:
    for part in (TABLES, USAGE, AUDIT, BELL):
        op.get_bind().exec_driver_sql(part)
