"""compose.yaml: every service of ours runs as it is written there, is healthy, does its part of a job, and stops."""

import re

import pytest
import yaml

from pipeline.cli import _COMMANDS
from pipeline.domain.states import JobState
from tests.deploy.composing import (
    ROOT,
    ComposedStack,
    interpolated,
    metric_names,
    read_compose,
    shipped_alerts,
    shipped_expressions,
)
from tests.monitoring.scraping import Scrape
from tests.system import scan

METRICS_PORT = "9464"


@pytest.fixture
def stack(system, tmp_path):
    variables = {"MUNIMENT_BUCKET": system.settings.objects.bucket, "MUNIMENT_ACCELERATOR_ENGINE": "simulated"}
    made = ComposedStack(system.settings, tmp_path, variables)
    yield made
    made.kill()


def can_be_run(service):
    """Whether the command is there; that of the API comes with it."""
    words = " ".join(service["command"])
    return re.search(r"\bmuniment (\w+)", words)[1] in _COMMANDS


def test_every_service_of_ours_runs_as_written(stack, system, tmp_path):
    services = [name for name in stack.of_ours() if can_be_run(stack.services[name])]
    assert set(services) >= {"migrate", "dispatcher", "worker-io", "worker-cpu", "launcher", "metrics", "flower"}
    code, printed = stack.run("migrate", stack.services["migrate"]["command"])
    assert code == 0, printed
    services.remove("migrate")
    for name in services:
        stack.start(name)
    for name in services:
        stack.becomes_healthy(name)

    by_cpu, by_card = system.submit(scan(tmp_path, 7)), system.submit(scan(tmp_path, 4), options={"lane": "gpu"})
    for job_id, pages in ((by_cpu, 7), (by_card, 4)):
        assert system.finished(job_id).state is JobState.SUCCEEDED
        system.assert_whole(job_id, pages)
    assert "chunk_ended" in stack.log("launcher") + stack.log("worker-cpu")

    served = [name for name in services if METRICS_PORT in stack.services[name]["environment"].values()]
    said = Scrape(*(stack.port(name, METRICS_PORT) for name in served))
    unknown = {what: metric_names(asked) - said.names for what, asked in shipped_expressions()}
    assert {what: names for what, names in unknown.items() if names} == {}

    assert {name: stack.stop(name) for name in services} == dict.fromkeys(services, 0)


# --- the file itself


def _environment(service):
    return dict(service.get("environment") or {})


@pytest.fixture(scope="module")
def compose():
    return read_compose()


def test_our_containers_can_do_as_little_as_possible(compose):
    for service in (service for service in compose["services"].values() if "muniment" in service["image"]):
        assert service["read_only"] is True
        assert service["user"] == "10001:10001"
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert "networks" in service


def test_every_service_is_bounded_restarted_and_watched(compose):
    unwatched = {name for name, service in compose["services"].items() if "healthcheck" not in service}
    # For the images of others, where nothing is known to be in them that could ask.
    assert unwatched == {"minio", "prometheus", "grafana"}
    for name, service in compose["services"].items():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name
        assert service["restart"] in ("unless-stopped", "on-failure:5"), name


def test_no_secret_stands_in_the_file_and_every_one_that_is_used_is_declared(compose):
    used = {secret for service in compose["services"].values() for secret in service.get("secrets", ())}
    assert used == set(compose["secrets"])
    given = {name: value for service in compose["services"].values() for name, value in _environment(service).items()}
    sensitive = {name: value for name, value in given.items() if re.search("PASSWORD|SECRET|KEY|AUTH", name)}
    assert sensitive
    assert {value for value in sensitive.values() if not value.startswith("/run/secrets")} == set()


def test_nothing_is_reachable_from_other_hosts_by_default(compose):
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert len(published) == 3
    assert all(interpolated(port, {}).startswith("127.0.0.1:") for port in published)
    assert compose["networks"]["backend"] == {"internal": True}


def test_prometheus_asks_every_service_that_serves_metrics(compose):
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    [discovered] = job["dns_sd_configs"]
    serving = {name for name, service in compose["services"].items() if METRICS_PORT in _environment(service).values()}
    assert set(discovered["names"]) == serving
    assert str(discovered["port"]) == METRICS_PORT


def test_each_alert_says_what_to_do_and_has_a_cause_in_the_unit_tests_of_the_rules():
    alerts = shipped_alerts()
    assert all({"summary", "action"} <= rule["annotations"].keys() for rule in alerts.values())
    causes = (ROOT / "deploy/prometheus/rules.test.yml").read_text()
    assert alerts.keys() == set(re.findall(r'alertname="(\w+)"', causes))
