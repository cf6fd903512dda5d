"""The manifests for Kubernetes: they run what there is, with the settings that there are, and may do little.

Whether they are valid is for tools with the schemas; see docs/deploy.md.
"""

import pytest
import yaml

from pipeline.cli import _COMMANDS
from pipeline.settings import Settings
from tests.system import ROOT
from tests.test_documentation import SETTINGS

FOLDER = ROOT / "deploy" / "kubernetes"
VARIABLES = {"MUNIMENT_" + name.replace(".", "__").upper() for name in SETTINGS} | {"MUNIMENT_SECRETS"}


def manifests():
    return [part for path in sorted(FOLDER.glob("*.yaml")) for part in yaml.safe_load_all(path.read_text())]


def named(kind):
    return {part["metadata"]["name"]: part for part in manifests() if part["kind"] == kind}


WORKLOADS = named("Deployment") | named("Job")


def pod(name):
    return WORKLOADS[name]["spec"]["template"]["spec"]


def test_all_files_are_applied():
    [kustomization] = [part for part in manifests() if part["kind"] == "Kustomization"]
    listed = {*kustomization["resources"], "kustomization.yaml"}
    assert listed == {path.name for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize("name", WORKLOADS)
def test_pods_are_bounded_and_may_do_little(name):
    [container] = pod(name)["containers"]
    assert pod(name)["securityContext"]["runAsNonRoot"] is True
    assert pod(name)["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]
    claimed = {mount["name"] for mount in container["volumeMounts"]}
    assert claimed == {volume["name"] for volume in pod(name)["volumes"]}


@pytest.mark.parametrize("name", WORKLOADS)
def test_commands_and_settings_are_those_that_there_are(name):
    [container] = pod(name)["containers"]
    program, command, *_ = container["command"]
    given = {entry["name"] for entry in container.get("env", ())} | named("ConfigMap")["muniment"]["data"].keys()
    # The API's command and settings come with it.
    unknown = {variable for variable in given - VARIABLES if variable.startswith("MUNIMENT_")}
    if name == "api" and "api" not in Settings.model_fields:
        assert {variable.partition("__")[0] for variable in unknown} == {"MUNIMENT_API"}
    else:
        assert (program, command in _COMMANDS, unknown) == ("muniment", True, set())


@pytest.mark.parametrize("name", named("Deployment"))
def test_probes_ask_a_port_that_is_there(name):
    [container] = pod(name)["containers"]
    ports = {port["name"] for port in container["ports"]}
    probes = [container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {probe["port"] for probe in probes} <= ports
    assert {probe["path"] for probe in probes} <= {"/livez", "/readyz", "/healthz"}


def test_what_is_scaled_leaves_its_number_to_that():
    scaled = {part["spec"]["scaleTargetRef"]["name"] for part in named("ScaledObject").values()}
    assert scaled == {name for name, part in named("Deployment").items() if "replicas" not in part["spec"]}
