"""Hosts whose clocks are minutes off: leases are measured by the database's clock alone."""

import re
from datetime import UTC, datetime, timedelta

from pipeline.domain.states import JobState
from tests.faults.injection import with_clock_off_by
from tests.system import scan

OFF = {"dispatcher0": -9, "io0": 9, "cpu0": 9, "cpu1": -9}
"""Minutes. S3 refuses requests that are signed a quarter of an hour off, and says why."""


def first_time_in_log(system, name):
    found = re.search(r"20\d\d-\d\d-\d\d.\d\d:\d\d:\d\d", system.log(name))
    return datetime.fromisoformat(found[0]).replace(tzinfo=UTC)


def test_clocks_that_are_off_cost_no_attempt(system, tmp_path):
    began = datetime.now(UTC)
    system.environment["TZ"] = "UTC"
    system.simulate(page_ms=50)
    system.spawn_dispatcher(0, **with_clock_off_by(OFF["dispatcher0"]))
    system.spawn_io(0, **with_clock_off_by(OFF["io0"]))
    for number in range(2):
        system.spawn_slot(number, **with_clock_off_by(OFF[f"cpu{number}"]))
    jobs = [system.submit(scan(tmp_path, 15, name=f"{number}.pdf")) for number in range(2)]
    for job_id in jobs:
        assert system.finished(job_id).state is JobState.SUCCEEDED
        system.assert_whole(job_id, 15)
    assert set(system.attempts()) == {("done", None)}
    for name, minutes in OFF.items():
        off = first_time_in_log(system, name) - began
        assert abs(off - timedelta(minutes=minutes)) < timedelta(minutes=4)
