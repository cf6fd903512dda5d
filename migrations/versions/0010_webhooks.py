"""Webhooks: who is to be told of a job's moves, the deliveries that follow, and what they are signed with."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None
old_processes_may_run = True

TABLES = r"""
ALTER TABLE job
    ADD COLUMN callback_url TEXT,
    ADD COLUMN callback_events JSONB,
    ADD CONSTRAINT job_callback_url_form
        CHECK (callback_url ~ '^https?://[^\s/?#@]+([/?#]\S*)?$' AND length(callback_url) <= 2000),
    ADD CONSTRAINT job_callback_events_known CHECK (jsonb_array_length(callback_events) > 0 AND callback_events <@
        '["job.running", "job.succeeded", "job.partial", "job.rejected", "job.failed", "job.cancelled"]'::jsonb);

CREATE TABLE endpoint (
    tenant TEXT NOT NULL,
    host TEXT NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    not_before TIMESTAMP WITH TIME ZONE,
    lease_owner TEXT,
    lease_until TIMESTAMP WITH TIME ZONE,
    taken_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (tenant, host),
    CONSTRAINT endpoint_lease_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
);

CREATE INDEX endpoint_in_turn ON endpoint (taken_at);
CREATE INDEX endpoint_leased ON endpoint (tenant) WHERE lease_until IS NOT NULL;

CREATE TABLE delivery (
    id UUID DEFAULT muniment_uuid7() NOT NULL,
    job_id UUID NOT NULL,
    tenant TEXT NOT NULL,
    host TEXT NOT NULL,
    url TEXT NOT NULL,
    event TEXT NOT NULL,
    body JSONB NOT NULL,
    state TEXT DEFAULT 'due' NOT NULL,
    attempt INTEGER DEFAULT 0 NOT NULL,
    tries INTEGER DEFAULT 0 NOT NULL,
    next_at TIMESTAMP WITH TIME ZONE DEFAULT now(),
    last_status SMALLINT,
    last_error TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    begun_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (id),
    CONSTRAINT delivery_state_known CHECK (state IN ('due', 'delivered', 'dead')),
    CONSTRAINT delivery_ends_or_is_due
        CHECK ((state = 'due') = (next_at IS NOT NULL) AND (state = 'due') = (ended_at IS NULL)),
    CONSTRAINT delivery_error_known CHECK (last_error IN ('status', 'name_unknown', 'not_connected', 'tls_failed',
        'timed_out', 'cut_short', 'not_allowed', 'lost', 'too_old')),
    FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE,
    CONSTRAINT delivery_endpoint FOREIGN KEY(tenant, host) REFERENCES endpoint (tenant, host)
);

CREATE INDEX delivery_due ON delivery (tenant, host, next_at) WHERE state = 'due';
CREATE INDEX delivery_next ON delivery (next_at) WHERE state = 'due';
CREATE INDEX delivery_by_job ON delivery (job_id, id);
CREATE INDEX delivery_by_tenant ON delivery (tenant, id);
CREATE INDEX delivery_by_endpoint ON delivery (tenant, host);
CREATE INDEX delivery_ended ON delivery (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE delivery_attempt (
    delivery_id UUID NOT NULL,
    number INTEGER NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    elapsed_ms INTEGER,
    status SMALLINT,
    error TEXT,
    PRIMARY KEY (delivery_id, number),
    FOREIGN KEY(delivery_id) REFERENCES delivery (id) ON DELETE CASCADE
);

CREATE TABLE webhook_key (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (id)
);

CREATE INDEX webhook_key_by_tenant ON webhook_key (tenant);
"""

# In the transaction of the move, whoever makes it: a job that has ended, ended with its delivery. The body says what
# was so then, and is the same at each attempt. It holds ids, states, counts and times: no text, no name of a document.
DELIVERIES = """
CREATE FUNCTION muniment_in_utc(moment timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

CREATE FUNCTION muniment_make_delivery() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    made uuid := muniment_uuid7();
    kind text := 'job.' || NEW.state;
    whither text := lower(substring(NEW.callback_url FROM '^https?://([^/?#]+)'));
    wanted jsonb := coalesce(NEW.callback_events,
        '["job.succeeded", "job.partial", "job.rejected", "job.failed", "job.cancelled"]');
BEGIN
    IF NOT wanted @> to_jsonb(kind) THEN
        RETURN NULL;
    END IF;
    INSERT INTO endpoint (tenant, host) VALUES (NEW.tenant, whither) ON CONFLICT DO NOTHING;
    INSERT INTO delivery (id, job_id, tenant, host, url, event, body) VALUES (
        made, NEW.id, NEW.tenant, whither, NEW.callback_url, kind,
        jsonb_build_object(
            'id', made,
            'event', kind,
            'created_at', muniment_in_utc(clock_timestamp()),
            'job', jsonb_build_object(
                'id', NEW.id,
                'state', NEW.state,
                'label', NEW.label,
                'idempotency_key', NEW.idempotency_key,
                'pages', jsonb_build_object(
                    'total', NEW.page_count,
                    'outcomes', (SELECT coalesce(jsonb_object_agg(outcome, number), '{}') FROM (
                        SELECT outcome, count(*) AS number FROM page
                        WHERE job_id = NEW.id AND outcome IS NOT NULL GROUP BY outcome) AS counted)),
                'error_code', NEW.error_code,
                'created_at', muniment_in_utc(NEW.created_at),
                'finished_at', muniment_in_utc(NEW.finished_at)),
            'links', jsonb_build_object(
                'job', '/v1/jobs/' || NEW.id,
                'results', (SELECT coalesce(
                    jsonb_object_agg(form, '/v1/jobs/' || NEW.id || '/result?format=' || form), '{}')
                    FROM jsonb_object_keys(NEW.result_keys) AS form))));
    RETURN NULL;
END $$;

CREATE TRIGGER job_tells AFTER UPDATE OF state ON job FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state AND NEW.callback_url IS NOT NULL AND NEW.state IN
        ('running', 'succeeded', 'partial', 'rejected', 'failed', 'cancelled'))
    EXECUTE FUNCTION muniment_make_delivery();
"""

# What people should be able to find out later: that a delivery was given up or replayed, and who changed keys.
TRAIL = """
CREATE FUNCTION muniment_record_delivery() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event (job_id, actor, kind, detail) VALUES (
        NEW.job_id, coalesce(nullif(current_setting('application_name'), ''), session_user),
        CASE NEW.state WHEN 'dead' THEN 'delivery.dead' ELSE 'delivery.replayed' END,
        jsonb_strip_nulls(jsonb_build_object(
            'delivery', NEW.id, 'event', NEW.event, 'attempt', NEW.attempt, 'error', NEW.last_error)));
    RETURN NULL;
END $$;

CREATE TRIGGER delivery_moved AFTER UPDATE OF state ON delivery FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state AND NEW.state <> 'delivered')
    EXECUTE FUNCTION muniment_record_delivery();

CREATE FUNCTION muniment_record_webhook_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event (actor, kind, detail) VALUES (
        coalesce(nullif(current_setting('application_name'), ''), session_user),
        CASE TG_OP WHEN 'INSERT' THEN 'webhook_key.created' WHEN 'DELETE' THEN 'webhook_key.removed'
            ELSE 'webhook_key.changed' END,
        jsonb_strip_nulls(jsonb_build_object(
            'key', coalesce(NEW.id, OLD.id), 'tenant', coalesce(NEW.tenant, OLD.tenant),
            'expires_at', muniment_in_utc(NEW.expires_at))));
    RETURN NULL;
END $$;

CREATE TRIGGER webhook_key_changed AFTER INSERT OR UPDATE OR DELETE ON webhook_key FOR EACH ROW
    EXECUTE FUNCTION muniment_record_webhook_key();
"""

SUBMITTER = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muniment_submitter') THEN
        GRANT INSERT (callback_url, callback_events) ON job TO muniment_submitter;
    END IF;
END $$;
"""


def upgrade() -> None:
    for part in (TABLES, DELIVERIES, TRAIL, SUBMITTER):
        op.get_bind().exec_driver_sql(part)
