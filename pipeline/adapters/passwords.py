"""Passwords of documents in their own table: written with a job, read with a claim, removed by a trigger at the end."""

from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from pipeline.adapters.tables import Job, JobSecret
from pipeline.domain.document import JobId
from pipeline.domain.password import Password

OF_JOB = select(JobSecret.password).where(JobSecret.job_id == Job.id).correlate(Job).scalar_subquery().label("password")
"""A column beside those of a job."""


def keep_password(connection: Connection, job_id: JobId, password: Password | None) -> None:
    """Put the password of a job that has not ended into the place of an earlier one, if one is given."""
    if password is None:
        return
    statement = insert(JobSecret).values(job_id=job_id, password=password.reveal)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[JobSecret.job_id], set_={"password": statement.excluded.password}
        )
    )


def password_of(row: Any) -> Password | None:
    """Return the password of a row that was selected with `OF_JOB`."""
    return None if row.password is None else Password(row.password)
