"""A second worker for a device that has one."""

from tests.waiting import eventually


def test_a_second_worker_for_the_same_device_refuses_and_names_the_holder(system):
    system.start()
    first = system.processes["cpu0"]
    eventually(system.rows.admissions.live_devices)
    second = system.spawn("again", "workers.worker", "--device", "cpu:0")
    assert second.wait(60) == 4
    assert f"held by process {first.pid}" in system.log("again")
