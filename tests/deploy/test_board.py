"""Every query of the board has data after one job."""

import math

from pipeline.domain.states import JobState
from tests.deploy.composing import shipped_queries
from tests.deploy.watching import Watch
from tests.system import scan
from tests.waiting import eventually


def test_each_query_has_data_after_one_job(system, tmp_path):
    """Of rates, there is something to be said when the job was seen twice: at first and when a part was done."""
    watch = Watch(tmp_path)
    gate = system.simulate_gate(tokens=60)
    system.spawn("metrics", "pipeline.monitoring.exporter", **watch.port_for("metrics"))
    system.spawn_dispatcher(0)
    system.spawn_io(0, **watch.port_for("io"))
    system.spawn_slot(0, **watch.port_for("device"))
    watch.see_all()
    watch.scrape()
    job_id = system.submit(scan(tmp_path, 20))
    system.in_work()
    # Without a dispatcher, the chunks that do not fit into the device's window wait.
    system.kill("dispatcher0")
    gate.touch()
    eventually(lambda: not system.rows.sql("SELECT 1 FROM chunk WHERE state IN ('admitted', 'running')"), within=120)
    assert 0 < system.status(job_id).pages_done < 20
    watch.scrape()
    system.spawn_dispatcher(1, **watch.port_for("dispatcher"))
    assert system.finished(job_id).state is JobState.SUCCEEDED
    watch.see_all()
    watch.scrape()
    silent = [(panel, query) for panel, query in shipped_queries() if not numbers(watch.ask(query))]
    assert silent == []


def numbers(values):
    return [value for _, value in values if math.isfinite(value)]
