"""Jobs on a kept connection."""

import asyncio
import contextlib
import socket

import pytest

from pipeline.adapters import job_reader
from pipeline.adapters.job_reader import JobReader
from pipeline.domain.errors import ErrorCode, Transient
from tests.rows import unknown


def read(url, use):
    async def run():
        async with contextlib.aclosing(JobReader(url, actor="reader of a test")) as reader:
            return await use(reader)

    return asyncio.run(run())


def test_it_finds_what_others_find(rows, database_url):
    ended, submitted = rows.ended(2), rows.submitted()
    found = read(database_url, lambda reader: reader.find([ended, unknown(), submitted]))
    assert {job.job_id: job for job in found} == {job.job_id: job for job in rows.submissions.find([ended, submitted])}


def test_a_connection_that_was_lost_meanwhile_is_opened_again(rows, database_url):
    job_id = rows.submitted()

    async def over_a_cut(reader):
        await reader.find([job_id])
        rows.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'reader of a test'"
            " AND datname = current_database()"
        )
        return await reader.find([job_id])

    assert [job.job_id for job in read(database_url, over_a_cut)] == [job_id]


def test_a_database_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(job_reader, "_PATIENCE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql+psycopg://nobody@127.0.0.1:{mute.getsockname()[1]}/none"
        with pytest.raises(Transient) as raised:
            read(url, lambda reader: reader.find([unknown()]))
    assert raised.value.code is ErrorCode.DATABASE_UNAVAILABLE
