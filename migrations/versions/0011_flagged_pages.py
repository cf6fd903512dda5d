"""Pages by what speaks against them, the worst first."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None
old_processes_may_run = True

# Over the flags as they lie in the row, so that pages of older releases are found, too.
REVIEW = """
CREATE FUNCTION muniment_doubt(flags jsonb, of_flag text DEFAULT NULL) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT max(coalesce((flag ->> 'score')::double precision, 0.5))
    FROM jsonb_array_elements(flags) AS flag
    WHERE of_flag IS NULL OR flag ->> 'name' = of_flag
$$;

CREATE INDEX page_flagged ON page (muniment_doubt(flags) DESC, job_id DESC, number) WHERE flags <> '[]'::jsonb;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(REVIEW)
