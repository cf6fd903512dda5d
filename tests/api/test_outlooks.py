"""What is said of jobs beside their rows."""

import asyncio
from dataclasses import replace

import pytest

from pipeline.api import outlooks
from pipeline.api.outlooks import Outlook, Outlooks
from pipeline.domain.errors import ErrorCode, Transient
from pipeline.domain.recognition import PageOutcome
from pipeline.domain.states import JobState


class Looking:
    """Says how often it was asked about a job."""

    def __init__(self):
        self.looks = []
        self.is_broken = False

    def __call__(self, job_ids):
        self.looks.append(set(job_ids))
        if self.is_broken:
            raise Transient(ErrorCode.DATABASE_UNAVAILABLE, "away")
        return {job_id: Outlook(f"look {len(self.looks)}") for job_id in job_ids}


@pytest.fixture
def looking():
    return Looking()


@pytest.fixture
def jobs(rows):
    return rows.submissions.find([rows.submitted(), rows.submitted(), rows.submitted()])


def test_jobs_are_looked_at_together_and_not_again_soon(looking, jobs):
    async def run():
        asked = Outlooks(looking)
        return [await asked.of(jobs), await asked.of(jobs[:1])]

    first, second = asyncio.run(run())
    assert first == {job.job_id: Outlook("look 1") for job in jobs}
    assert second == {jobs[0].job_id: Outlook("look 1")}
    assert looking.looks == [{job.job_id for job in jobs}]


def test_a_job_that_changed_is_looked_at_at_once_and_one_whose_pages_went_on_is_not(looking, jobs):
    async def run():
        asked = Outlooks(looking)
        await asked.of(jobs)
        read = replace(jobs[0], outcomes={PageOutcome.BLANK: 1})
        return await asked.of([read, replace(jobs[1], paused=True)])

    said = asyncio.run(run())
    assert said == {jobs[0].job_id: Outlook("look 1"), jobs[1].job_id: Outlook("look 2")}
    assert looking.looks[1:] == [{jobs[1].job_id}]


def test_of_a_job_that_has_ended_there_is_nothing_to_say(looking, jobs):
    assert asyncio.run(Outlooks(looking).of([replace(jobs[0], state=JobState.SUCCEEDED)])) == {}
    assert looking.looks == []


def test_what_is_still_asked_for_is_renewed_together_behind_an_answer(looking, jobs, monkeypatch):
    monkeypatch.setattr(outlooks, "_GOOD_FOR_S", 0.0)

    async def run():
        asked = Outlooks(looking)
        asked._held = {}  # nothing runs out
        await asked.of(jobs)
        await renewed(asked)
        said = [await asked.of([jobs[1]])]
        await renewed(asked)
        said.append(await asked.of([jobs[1]]))
        await renewed(asked)
        return said

    async def renewed(asked):
        async with asyncio.timeout(10):
            while asked._renewing:
                await asyncio.sleep(0)

    said = asyncio.run(run())
    everything, one = {job.job_id for job in jobs}, {jobs[1].job_id}
    assert looking.looks == [everything, everything, one, one]
    assert [each[jobs[1].job_id] for each in said] == [Outlook("look 2"), Outlook("look 3")]


def test_who_asks_first_hears_that_nothing_can_be_said_and_who_asks_again_what_was_said(looking, jobs, monkeypatch):
    looking.is_broken = True

    async def run():
        asked = Outlooks(looking)
        with pytest.raises(Transient):
            await asked.of(jobs)
        looking.is_broken = False
        await asked.of(jobs)
        looking.is_broken = True
        monkeypatch.setattr(outlooks, "_GOOD_FOR_S", 0.0)
        return [await asked.of(jobs), await asked.of(jobs)]

    assert asyncio.run(run()) == [{job.job_id: Outlook("look 2") for job in jobs}] * 2
