"""Tables, the trail of moves, the doorbell and the submitter's role."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
old_processes_may_run = True

# uuidv7() came with Postgres 18; this one serves from 13 on. Layout: RFC 9562, section 5.7.
UUID7 = """
CREATE FUNCTION muniment_uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
            52, 1), 53, 1),
        'hex')::uuid
$$;
"""

TABLES = """
CREATE TABLE job (
    id UUID DEFAULT muniment_uuid7() NOT NULL,
    tenant TEXT NOT NULL,
    source_uri TEXT,
    upload_key TEXT,
    source_name TEXT NOT NULL,
    options JSONB DEFAULT '{}'::jsonb NOT NULL,
    priority SMALLINT DEFAULT 0 NOT NULL,
    idempotency_key TEXT,
    deadline TIMESTAMP WITH TIME ZONE,
    paused BOOLEAN DEFAULT false NOT NULL,
    cancel_requested BOOLEAN DEFAULT false NOT NULL,
    state TEXT DEFAULT 'submitted' NOT NULL,
    attempt INTEGER DEFAULT 0 NOT NULL,
    failures SMALLINT DEFAULT 0 NOT NULL,
    lost SMALLINT DEFAULT 0 NOT NULL,
    lease_owner TEXT,
    lease_until TIMESTAMP WITH TIME ZONE,
    dispatched_at TIMESTAMP WITH TIME ZONE,
    not_before TIMESTAMP WITH TIME ZONE,
    sha256 TEXT,
    size_bytes BIGINT,
    media_type TEXT,
    page_count INTEGER,
    flags JSONB DEFAULT '[]'::jsonb NOT NULL,
    chunks_total INTEGER,
    chunks_remaining INTEGER,
    document_key TEXT,
    result_keys JSONB DEFAULT '{}'::jsonb NOT NULL,
    error_code TEXT,
    error_detail TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (id),
    CONSTRAINT job_has_one_source CHECK (num_nonnulls(source_uri, upload_key) = 1),
    CONSTRAINT job_options_is_object CHECK (jsonb_typeof(options) = 'object'),
    CONSTRAINT job_priority_range CHECK (priority BETWEEN -100 AND 100),
    CONSTRAINT job_state_known CHECK (state IN ('submitted', 'planning', 'running', 'merging', 'exporting',
        'delivering', 'succeeded', 'partial', 'rejected', 'failed', 'cancelled')),
    CONSTRAINT job_lease_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CONSTRAINT job_lease_only_for_steps CHECK (lease_owner IS NULL OR state IN ('submitted', 'planning', 'merging',
        'exporting', 'delivering')),
    CONSTRAINT job_sha256_hex CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT job_sizes_positive CHECK (page_count > 0 AND size_bytes > 0),
    CONSTRAINT job_chunks_counted CHECK (chunks_remaining BETWEEN 0 AND chunks_total),
    CONSTRAINT job_finished_when_terminal CHECK (state IN ('succeeded', 'partial', 'rejected', 'failed',
        'cancelled') = (finished_at IS NOT NULL)),
    CONSTRAINT job_failure_has_cause CHECK (NOT state IN ('rejected', 'failed') OR error_code IS NOT NULL),
    CONSTRAINT job_idempotency UNIQUE (tenant, idempotency_key)
);

CREATE INDEX job_by_tenant ON job (tenant, created_at DESC);

CREATE INDEX job_due ON job (priority DESC, created_at) WHERE state IN ('submitted', 'planning', 'merging',
        'exporting', 'delivering');

CREATE INDEX job_open ON job (created_at) WHERE NOT state IN ('succeeded', 'partial', 'rejected', 'failed',
        'cancelled');

CREATE TABLE chunk (
    id UUID NOT NULL,
    job_id UUID NOT NULL,
    ordinal INTEGER NOT NULL,
    first_page INTEGER NOT NULL,
    last_page INTEGER NOT NULL,
    lane TEXT NOT NULL,
    state TEXT DEFAULT 'ready' NOT NULL,
    attempt INTEGER DEFAULT 0 NOT NULL,
    failures SMALLINT DEFAULT 0 NOT NULL,
    lost SMALLINT DEFAULT 0 NOT NULL,
    lease_owner TEXT,
    lease_until TIMESTAMP WITH TIME ZONE,
    dispatched_at TIMESTAMP WITH TIME ZONE,
    not_before TIMESTAMP WITH TIME ZONE,
    cost_ms INTEGER NOT NULL,
    error_code TEXT,
    error_detail TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT chunk_range_not_empty CHECK (first_page >= 1 AND last_page >= first_page),
    CONSTRAINT chunk_lane_known CHECK (lane IN ('cpu', 'gpu')),
    CONSTRAINT chunk_state_known CHECK (state IN ('ready', 'admitted', 'running', 'done', 'split', 'dead',
        'cancelled')),
    CONSTRAINT chunk_lease_while_running
        CHECK ((state = 'running') = (lease_owner IS NOT NULL) AND (lease_owner IS NULL) = (lease_until IS NULL)),
    CONSTRAINT chunk_runs_at_an_attempt CHECK (state <> 'running' OR attempt > 0),
    CONSTRAINT chunk_death_has_cause CHECK (state <> 'dead' OR error_code IS NOT NULL),
    CONSTRAINT chunk_ordinal UNIQUE (job_id, ordinal),
    FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);

CREATE INDEX chunk_in_flight ON chunk (lane, state) WHERE state IN ('admitted', 'running');

CREATE INDEX chunk_ready ON chunk (lane, ordinal) WHERE state = 'ready';

CREATE TABLE chunk_attempt (
    chunk_id UUID NOT NULL,
    attempt INTEGER NOT NULL,
    owner TEXT NOT NULL,
    device_id TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    outcome TEXT,
    error_code TEXT,
    error_detail TEXT,
    pages_done INTEGER DEFAULT 0 NOT NULL,
    baseline_bytes BIGINT,
    peak_bytes BIGINT,
    PRIMARY KEY (chunk_id, attempt),
    CONSTRAINT chunk_attempt_outcome_known CHECK (outcome IN ('done', 'failed', 'lost', 'drained', 'cancelled')),
    CONSTRAINT chunk_attempt_ends_with_outcome CHECK ((outcome IS NULL) = (ended_at IS NULL)),
    FOREIGN KEY(chunk_id) REFERENCES chunk (id) ON DELETE CASCADE
);

CREATE INDEX chunk_attempt_by_device ON chunk_attempt (device_id, started_at);

CREATE TABLE page (
    job_id UUID NOT NULL,
    number INTEGER NOT NULL,
    chunk_id UUID,
    class TEXT NOT NULL,
    outcome TEXT,
    segment_key TEXT,
    attempt INTEGER,
    flags JSONB DEFAULT '[]'::jsonb NOT NULL,
    confidence DOUBLE PRECISION,
    angle_deg DOUBLE PRECISION,
    width_px INTEGER,
    height_px INTEGER,
    dpi DOUBLE PRECISION,
    engine TEXT,
    revision TEXT,
    elapsed_ms INTEGER,
    error_code TEXT,
    error_detail TEXT,
    PRIMARY KEY (job_id, number),
    CONSTRAINT page_counted_from_1 CHECK (number >= 1),
    CONSTRAINT page_class_known CHECK (class IN ('text_layer', 'scan', 'mixed', 'blank', 'unreadable')),
    CONSTRAINT page_outcome_known CHECK (outcome IN ('text_layer', 'recognised', 'blank', 'failed')),
    CONSTRAINT page_failure_has_cause CHECK ((outcome IS NOT DISTINCT FROM 'failed') = (error_code IS NOT NULL)),
    CONSTRAINT page_result_needs_outcome CHECK (outcome IS NOT NULL OR segment_key IS NULL),
    CONSTRAINT page_outcome_has_result CHECK (outcome IS NULL OR outcome = 'failed' OR segment_key IS NOT NULL),
    CONSTRAINT page_confidence_range CHECK (confidence BETWEEN 0 AND 1),
    CONSTRAINT page_chunk FOREIGN KEY(chunk_id) REFERENCES chunk (id) ON DELETE SET NULL,
    FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);

CREATE INDEX page_by_chunk ON page (chunk_id) WHERE chunk_id IS NOT NULL;

CREATE TABLE device (
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    lanes JSONB NOT NULL,
    state TEXT DEFAULT 'free' NOT NULL,
    lease_owner TEXT,
    lease_until TIMESTAMP WITH TIME ZONE,
    total_bytes BIGINT,
    baseline_bytes BIGINT,
    peak_bytes BIGINT,
    engine TEXT,
    revision TEXT,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT device_kind_known CHECK (kind IN ('cpu', 'cuda')),
    CONSTRAINT device_state_known CHECK (state IN ('free', 'busy', 'draining', 'sick')),
    CONSTRAINT device_lease_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
);

CREATE TABLE event (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    job_id UUID NOT NULL,
    chunk_id UUID,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail JSONB DEFAULT '{}'::jsonb NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);

CREATE INDEX event_by_job ON event (job_id, id);
"""

# A row is a whole submission: what its author left out is filled in, and the dispatcher's bell is rung.
SUBMISSION = """
CREATE FUNCTION muniment_job_defaults() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.tenant IS NULL THEN
        NEW.tenant := CASE WHEN row_security_active('job') THEN current_user ELSE 'default' END;
    END IF;
    IF NEW.source_name IS NULL THEN
        NEW.source_name := coalesce(
            nullif(regexp_replace(split_part(NEW.source_uri, '?', 1), '^.*/', ''), ''), NEW.source_uri, 'document');
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER job_defaults BEFORE INSERT ON job FOR EACH ROW EXECUTE FUNCTION muniment_job_defaults();

CREATE FUNCTION muniment_touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := clock_timestamp();
    RETURN NEW;
END $$;

CREATE TRIGGER job_touch BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION muniment_touch();
CREATE TRIGGER chunk_touch BEFORE UPDATE ON chunk FOR EACH ROW EXECUTE FUNCTION muniment_touch();
CREATE TRIGGER device_touch BEFORE UPDATE ON device FOR EACH ROW EXECUTE FUNCTION muniment_touch();
"""

# Every move leaves an event, whoever makes it: a worker, the command line or a person with psql.
# SECURITY DEFINER, because a submitter may insert jobs and no events.
EVENTS = """
CREATE FUNCTION muniment_record_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    before text := CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END;
BEGIN
    IF TG_TABLE_NAME = 'job' THEN
        INSERT INTO event (job_id, actor, kind, detail) VALUES (
            NEW.id, coalesce(nullif(current_setting('application_name'), ''), session_user), 'job.' || NEW.state,
            jsonb_strip_nulls(jsonb_build_object(
                'from', before, 'attempt', NEW.attempt, 'error_code', NEW.error_code)));
        IF NEW.state IN ('submitted', 'running', 'merging') THEN
            PERFORM pg_notify('muniment', NEW.state);
        END IF;
    ELSE
        INSERT INTO event (job_id, chunk_id, actor, kind, detail) VALUES (
            NEW.job_id, NEW.id, coalesce(nullif(current_setting('application_name'), ''), session_user),
            'chunk.' || NEW.state,
            jsonb_strip_nulls(jsonb_build_object(
                'from', before, 'attempt', NEW.attempt, 'first_page', NEW.first_page, 'last_page', NEW.last_page,
                'error_code', NEW.error_code)));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER job_inserted AFTER INSERT ON job FOR EACH ROW EXECUTE FUNCTION muniment_record_move();
CREATE TRIGGER job_moved AFTER UPDATE OF state ON job FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION muniment_record_move();
CREATE TRIGGER chunk_inserted AFTER INSERT ON chunk FOR EACH ROW EXECUTE FUNCTION muniment_record_move();
CREATE TRIGGER chunk_moved AFTER UPDATE OF state ON chunk FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION muniment_record_move();

CREATE FUNCTION muniment_ring() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('muniment', 'control');
    RETURN NULL;
END $$;

CREATE TRIGGER job_controlled AFTER UPDATE OF cancel_requested, paused, priority, deadline ON job FOR EACH ROW
    EXECUTE FUNCTION muniment_ring();
"""

# A submitter inserts jobs and reads what became of them, its own tenant's only; the login's name is the tenant.
# Roles belong to the whole server, so the role may exist, and a server may not let us make one.
SUBMITTER = """
ALTER TABLE job ENABLE ROW LEVEL SECURITY;
ALTER TABLE page ENABLE ROW LEVEL SECURITY;
ALTER TABLE event ENABLE ROW LEVEL SECURITY;

DO $$
BEGIN
    PERFORM pg_advisory_xact_lock(7165537);
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'muniment_submitter') THEN
        CREATE ROLE muniment_submitter NOLOGIN;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE WARNING 'no right to create the role muniment_submitter: create it and run the grants of docs/rows.md';
    WHEN duplicate_object OR unique_violation THEN
        NULL;
END $$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muniment_submitter') THEN
        GRANT INSERT (source_uri, source_name, options, priority, idempotency_key, deadline), SELECT
            ON job TO muniment_submitter;
        GRANT SELECT ON page, event TO muniment_submitter;
        CREATE POLICY submitter_inserts ON job FOR INSERT TO muniment_submitter WITH CHECK (tenant = current_user);
        CREATE POLICY submitter_reads ON job FOR SELECT TO muniment_submitter USING (tenant = current_user);
        CREATE POLICY submitter_reads ON page FOR SELECT TO muniment_submitter
            USING (EXISTS (SELECT FROM job WHERE job.id = page.job_id AND job.tenant = current_user));
        CREATE POLICY submitter_reads ON event FOR SELECT TO muniment_submitter
            USING (EXISTS (SELECT FROM job WHERE job.id = event.job_id AND job.tenant = current_user));
    END IF;
END $$;
"""


def upgrade() -> None:
    for part in (UUID7, TABLES, SUBMISSION, EVENTS, SUBMITTER):
        op.get_bind().exec_driver_sql(part)
