"""Tenants with weights and bounds, batches, hours, turns of admission, and counts of what a service's absence cost."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None
old_processes_may_run = True

TABLES = """
CREATE TABLE tenant (
    name TEXT NOT NULL,
    weight DOUBLE PRECISION DEFAULT 1 NOT NULL,
    paused BOOLEAN DEFAULT false NOT NULL,
    max_queued_pages BIGINT,
    queued_pages BIGINT DEFAULT 0 NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (name),
    CONSTRAINT tenant_weight_positive CHECK (weight > 0),
    CONSTRAINT tenant_bound_not_negative CHECK (max_queued_pages >= 0)
);

CREATE TABLE batch (
    tenant TEXT NOT NULL,
    label TEXT NOT NULL,
    paused BOOLEAN DEFAULT false NOT NULL,
    priority SMALLINT,
    deadline TIMESTAMP WITH TIME ZONE,
    hours TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (tenant, label),
    CONSTRAINT batch_priority_range CHECK (priority BETWEEN -100 AND 100),
    CONSTRAINT batch_hours_form
        CHECK (hours ~ '^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]( [A-Za-z0-9_+/-]+)?$')
);

CREATE TABLE turn (
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    finished DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, queue)
);

ALTER TABLE job
    ADD COLUMN label TEXT,
    ADD COLUMN hours TEXT,
    ADD COLUMN off_hours BOOLEAN DEFAULT false NOT NULL,
    ADD COLUMN waits INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN lane TEXT,
    ADD COLUMN is_short BOOLEAN DEFAULT false NOT NULL,
    ADD COLUMN begun_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    ADD CONSTRAINT job_hours_form
        CHECK (hours ~ '^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]( [A-Za-z0-9_+/-]+)?$'),
    ADD CONSTRAINT job_lane_known CHECK (lane IN ('cpu', 'gpu'));

ALTER TABLE chunk
    ADD COLUMN options JSONB,
    ADD COLUMN is_express BOOLEAN DEFAULT false NOT NULL,
    ADD COLUMN waits INTEGER DEFAULT 0 NOT NULL;

ALTER TABLE chunk_attempt DROP CONSTRAINT chunk_attempt_outcome_known;
ALTER TABLE chunk_attempt ADD CONSTRAINT chunk_attempt_outcome_known
    CHECK (outcome IN ('done', 'failed', 'lost', 'drained', 'paused', 'cancelled'));
"""

# What rows say, said for those that are there already.
ROWS = """
UPDATE job SET begun_at = created_at;
UPDATE job SET lane = (SELECT min(lane) FROM chunk WHERE job_id = job.id) WHERE state = 'running';
INSERT INTO tenant (name) SELECT DISTINCT tenant FROM job;
UPDATE tenant SET queued_pages = coalesce((SELECT sum(page_count) FROM job WHERE tenant = tenant.name
    AND state NOT IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled')), 0);
"""

# Every hot query walks one of these from its best row on, however long the backlog is.
INDEXES = """
DROP INDEX job_due;
DROP INDEX job_open;
DROP INDEX chunk_ready;

CREATE INDEX job_due ON job (tenant, priority DESC, (state = 'submitted'), created_at)
    WHERE state IN ('submitted', 'planning', 'merging', 'exporting', 'delivering')
        AND dispatched_at IS NULL AND NOT (paused OR cancel_requested OR off_hours);
CREATE INDEX job_sent ON job (dispatched_at)
    WHERE state IN ('submitted', 'planning', 'merging', 'exporting', 'delivering') AND dispatched_at IS NOT NULL;
CREATE INDEX job_running ON job (lane, tenant, priority DESC, created_at)
    WHERE state = 'running' AND NOT (paused OR cancel_requested OR off_hours);
CREATE INDEX job_short ON job (lane, tenant, priority DESC, created_at)
    WHERE state = 'running' AND NOT (paused OR cancel_requested OR off_hours) AND is_short;
CREATE INDEX job_unwanted ON job (id)
    WHERE cancel_requested AND NOT state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled');
CREATE INDEX job_deadline ON job (deadline)
    WHERE deadline IS NOT NULL AND NOT state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled');
CREATE INDEX job_hours ON job (hours, off_hours)
    WHERE hours IS NOT NULL AND NOT state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled');
CREATE INDEX job_by_label ON job (tenant, label)
    WHERE label IS NOT NULL AND NOT state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled');
CREATE INDEX job_open ON job (id)
    WHERE NOT state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled');
CREATE INDEX chunk_open ON chunk (job_id, ordinal) WHERE state IN ('ready', 'admitted', 'running');

-- Room on each table page for the next versions of its rows, so that most updates touch no index.
ALTER TABLE job SET (fillfactor = 70);
ALTER TABLE chunk SET (fillfactor = 70);
ALTER TABLE page SET (fillfactor = 80);
"""

HOURS = """
CREATE FUNCTION muniment_within(hours text, moment timestamptz) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN hours IS NULL OR opens = closes THEN true
        WHEN opens < closes THEN local >= opens AND local < closes
        ELSE local >= opens OR local < closes
    END
    FROM (SELECT
        left(hours, 5)::time AS opens,
        substr(hours, 7, 5)::time AS closes,
        (moment AT TIME ZONE coalesce(nullif(substr(hours, 13), ''), 'UTC'))::time AS local
    ) AS parts
$$;
"""

# A new job joins its tenant and its batch, and takes over what stands on the batch. SECURITY DEFINER: a submitter
# may insert jobs and nothing else. The name sorts after job_defaults, which fills in the tenant.
JOINING = """
CREATE FUNCTION muniment_job_joins() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    joined batch;
BEGIN
    IF NOT EXISTS (SELECT FROM tenant WHERE name = NEW.tenant) THEN
        INSERT INTO tenant (name) VALUES (NEW.tenant) ON CONFLICT DO NOTHING;
    END IF;
    IF NEW.label IS NOT NULL THEN
        INSERT INTO batch (tenant, label) VALUES (NEW.tenant, NEW.label) ON CONFLICT DO NOTHING;
        SELECT * INTO joined FROM batch WHERE tenant = NEW.tenant AND label = NEW.label;
        NEW.paused := NEW.paused OR joined.paused;
        NEW.hours := coalesce(NEW.hours, joined.hours);
        NEW.deadline := coalesce(NEW.deadline, joined.deadline);
        IF NEW.priority = 0 THEN
            NEW.priority := coalesce(joined.priority, 0);
        END IF;
    END IF;
    NEW.off_hours := NOT muniment_within(NEW.hours, clock_timestamp());
    RETURN NEW;
END $$;

CREATE TRIGGER job_joins BEFORE INSERT ON job FOR EACH ROW EXECUTE FUNCTION muniment_job_joins();

CREATE FUNCTION muniment_job_hours() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.off_hours := NOT muniment_within(NEW.hours, clock_timestamp());
    RETURN NEW;
END $$;

CREATE TRIGGER job_hours BEFORE UPDATE OF hours ON job FOR EACH ROW EXECUTE FUNCTION muniment_job_hours();

CREATE FUNCTION muniment_batch_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE job SET
        paused = CASE WHEN NEW.paused = OLD.paused THEN paused ELSE NEW.paused END,
        priority = CASE WHEN NEW.priority IS NOT DISTINCT FROM OLD.priority THEN priority
            ELSE coalesce(NEW.priority, 0) END,
        deadline = CASE WHEN NEW.deadline IS NOT DISTINCT FROM OLD.deadline THEN deadline ELSE NEW.deadline END,
        hours = CASE WHEN NEW.hours IS NOT DISTINCT FROM OLD.hours THEN hours ELSE NEW.hours END
    WHERE tenant = NEW.tenant AND label = NEW.label
        AND NOT state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled');
    RETURN NULL;
END $$;

CREATE TRIGGER batch_changed AFTER UPDATE OF paused, priority, deadline, hours ON batch FOR EACH ROW
    EXECUTE FUNCTION muniment_batch_changed();
"""

COUNTING = """
CREATE FUNCTION muniment_queued_pages(job) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN $1.state IN ('succeeded', 'partial', 'rejected', 'failed', 'cancelled') THEN 0
        ELSE coalesce($1.page_count, 0) END
$$;

CREATE FUNCTION muniment_count_pages() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    before integer := CASE WHEN TG_OP = 'INSERT' THEN 0 ELSE muniment_queued_pages(OLD) END;
    after integer := CASE WHEN TG_OP = 'DELETE' THEN 0 ELSE muniment_queued_pages(NEW) END;
BEGIN
    IF after <> before THEN
        UPDATE tenant SET queued_pages = queued_pages + after - before WHERE name = coalesce(NEW.tenant, OLD.tenant);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER job_pages_counted AFTER INSERT OR DELETE OR UPDATE OF state, page_count ON job FOR EACH ROW
    EXECUTE FUNCTION muniment_count_pages();
"""

# A change of what is to become of a job is on its trail like any move, and rings the dispatcher's bell.
CONTROL = """
CREATE FUNCTION muniment_record_control() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event (job_id, actor, kind, detail) VALUES (
        NEW.id, coalesce(nullif(current_setting('application_name'), ''), session_user), 'job.control',
        jsonb_strip_nulls(jsonb_build_object(
            'cancel_requested', CASE WHEN NEW.cancel_requested <> OLD.cancel_requested THEN NEW.cancel_requested END,
            'paused', CASE WHEN NEW.paused <> OLD.paused THEN NEW.paused END,
            'off_hours', CASE WHEN NEW.off_hours <> OLD.off_hours THEN NEW.off_hours END,
            'priority', CASE WHEN NEW.priority <> OLD.priority THEN NEW.priority END,
            'deadline', CASE WHEN NEW.deadline IS DISTINCT FROM OLD.deadline
                THEN coalesce(to_char(NEW.deadline AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'none') END,
            'hours', CASE WHEN NEW.hours IS DISTINCT FROM OLD.hours THEN coalesce(NEW.hours, 'any') END)));
    PERFORM pg_notify('muniment', 'control');
    RETURN NULL;
END $$;

DROP TRIGGER job_controlled ON job;
CREATE TRIGGER job_controlled AFTER UPDATE OF cancel_requested, paused, off_hours, priority, deadline, hours ON job
    FOR EACH ROW WHEN (
        (OLD.cancel_requested, OLD.paused, OLD.off_hours, OLD.priority, OLD.deadline, OLD.hours)
        IS DISTINCT FROM
        (NEW.cancel_requested, NEW.paused, NEW.off_hours, NEW.priority, NEW.deadline, NEW.hours))
    EXECUTE FUNCTION muniment_record_control();
CREATE TRIGGER tenant_controlled AFTER UPDATE OF paused, weight ON tenant FOR EACH ROW EXECUTE FUNCTION muniment_ring();
"""

SUBMITTER = """
ALTER TABLE batch ENABLE ROW LEVEL SECURITY;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muniment_submitter') THEN
        GRANT INSERT (label, hours) ON job TO muniment_submitter;
        GRANT SELECT ON batch TO muniment_submitter;
        CREATE POLICY submitter_reads ON batch FOR SELECT TO muniment_submitter USING (tenant = current_user);
    END IF;
END $$;
"""


def upgrade() -> None:
    for part in (TABLES, ROWS, INDEXES, HOURS, JOINING, COUNTING, CONTROL, SUBMITTER):
        op.get_bind().exec_driver_sql(part)
