"""Passwords of documents, apart from their jobs: a submitter may give one and read none; the job's end removes it."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None
old_processes_may_run = True

TABLES = """
CREATE TABLE job_secret (
    job_id UUID NOT NULL,
    password TEXT NOT NULL,
    PRIMARY KEY (job_id),
    FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);
"""

# Not a CHECK: the error of that would show the row. What a job that has ended is given would stay for ever.
GIVING = """
CREATE FUNCTION muniment_secret_given() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF length(NEW.password) NOT BETWEEN 1 AND 1000 THEN
        RAISE check_violation USING MESSAGE = 'a password has 1 to 1000 characters';
    END IF;
    IF EXISTS (SELECT FROM job WHERE id = NEW.job_id AND finished_at IS NOT NULL) THEN
        RAISE check_violation USING MESSAGE = 'a job that has ended takes no password: begin it again with one';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER secret_given BEFORE INSERT OR UPDATE ON job_secret FOR EACH ROW
    EXECUTE FUNCTION muniment_secret_given();
"""

FORGETTING = """
CREATE FUNCTION muniment_forget_secret() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM job_secret WHERE job_id = NEW.id;
    RETURN NULL;
END $$;

CREATE TRIGGER job_forgets_secret AFTER UPDATE OF state ON job FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL)
    EXECUTE FUNCTION muniment_forget_secret();
"""

SUBMITTER = """
ALTER TABLE job_secret ENABLE ROW LEVEL SECURITY;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muniment_submitter') THEN
        GRANT INSERT (job_id, password) ON job_secret TO muniment_submitter;
        CREATE POLICY submitter_inserts ON job_secret FOR INSERT TO muniment_submitter
            WITH CHECK (EXISTS (SELECT FROM job WHERE job.id = job_secret.job_id AND job.tenant = current_user));
    END IF;
END $$;
"""


def upgrade() -> None:
    for part in (TABLES, GIVING, FORGETTING, SUBMITTER):
        op.get_bind().exec_driver_sql(part)
