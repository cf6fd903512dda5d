"""A newer dispatcher runs beside an older worker for a while: what the worker does not understand, it leaves alone."""

from pipeline.domain.states import JobState
from tests.system import scan
from tests.waiting import eventually
from workers import chains
from workers.app import create_app


def test_a_message_of_a_later_version_is_left_alone_and_its_row_sent_again(system, tmp_path, monkeypatch):
    system.environment["MUNIMENT_LEASES__RESEND"] = "PT5S"
    system.start(slots=0)
    job_id = system.submit(scan(tmp_path, 7))
    eventually(lambda: system.status(job_id).state is JobState.RUNNING)
    system.kill("dispatcher0")
    monkeypatch.setattr(chains, "MESSAGE_VERSION", chains.MESSAGE_VERSION + 1)
    newer = chains.CeleryChains(create_app(system.settings))
    for due in system.rows.take_chunks(10):
        newer.send_chunk(due)
    system.spawn_slot(0)
    eventually(lambda: "message_of_later_version" in system.log("cpu0"), within=60)
    system.spawn_dispatcher(1)
    assert system.finished(job_id).state is JobState.SUCCEEDED
    system.assert_whole(job_id, 7)
    assert set(system.attempts()) == {("done", None)}
