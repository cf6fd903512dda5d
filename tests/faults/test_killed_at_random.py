"""kill -9 of whatever runs, again and again; the seed decides after how many pages, and which of what there is."""

import random
from contextlib import suppress

import psutil
import pytest

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually

PAGES, KILLS = 60, 8


def whatever_runs(system):
    """Return the system's processes, what their pools run in, and their runners."""
    found = []
    for _, process in sorted(system.processes.items()):
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(process.pid)
            found += [family, *family.children(recursive=True)]
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_killed_every_page_is_there_once(system, tmp_path, seed):
    chance = random.Random(seed)
    system.environment["MUNIMENT_LEASES__STEP"] = "PT10S"
    system.simulate(page_ms=30)
    system.start(slots=2, dispatchers=2)
    job_id = system.submit(scan(tmp_path, PAGES))

    def reached(pages):
        system.revive()
        return system.status(job_id).pages_done >= pages

    for pages in sorted(chance.sample(range(PAGES), KILLS)):
        eventually(lambda pages=pages: reached(pages), within=120)
        with suppress(psutil.NoSuchProcess):
            chance.choice(whatever_runs(system)).kill()
    assert system.finished(job_id, within=240, supervised=True).state is JobState.SUCCEEDED
    system.assert_whole(job_id, PAGES)
