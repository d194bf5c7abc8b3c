"""Kubernetes manifests by the published schemas, the container file by its linter, what each names by what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from argus.api.cli import build_parser, load
from argus.api.settings import settings_table
from argus.collectors.records.host_sample import KERNEL_EVENTS

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


def of_kind(kind: str) -> dict[str, Any]:
    found = [one for name in ("daemonset.yaml", "service.yaml", "monitoring.yaml") for one in documents(name)]
    (one,) = [one for one in found if one["kind"] == kind]
    return one


@pytest.mark.parametrize("name", ["daemonset.yaml", "service.yaml"])
def test_the_schemas_of_kubernetes_take_the_manifests(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own import
        validate = pytest.importorskip("kubernetes_validate")
    assert documents(name)
    for document in documents(name):
        validate.validate(document, "1.31", strict=True)


def test_the_schemas_would_refuse_a_mistake() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validate = pytest.importorskip("kubernetes_validate")
    deployment = of_kind("Deployment")
    deployment["spec"]["replica"] = 2
    with pytest.raises(validate.ValidationError):
        validate.validate(deployment, "1.31", strict=True)


def test_the_parts_find_each_other() -> None:
    deployment, service, budget = of_kind("Deployment"), of_kind("Service"), of_kind("PodDisruptionBudget")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    assert {service["spec"]["ports"][0]["targetPort"]} | {
        of_kind("ServiceMonitor")["spec"]["endpoints"][0]["port"]
    } == ports
    daemonset = of_kind("DaemonSet")
    (processor,) = daemonset["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in processor["env"]}
    meta = service["metadata"]
    assert (
        env["ARGUS_SERVER"]
        == f"http://{meta['name']}.{meta['namespace']}.svc:{service['spec']['ports'][0]['port']}"
    )


def test_the_service_runs_without_rights_and_writes_nothing() -> None:
    spec = of_kind("Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    security = container["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
    assert security["readOnlyRootFilesystem"] and security["capabilities"]["drop"] == ["ALL"]
    assert not security["allowPrivilegeEscalation"] and "cpu" not in container["resources"]["limits"]
    known = {env for _, env, _, _ in settings_table()}
    assert {one["name"] for one in container["env"]} <= known
    assert all("valueFrom" in one for one in container["env"])


def test_every_command_line_parses() -> None:
    (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    (image,) = re.findall(r"^CMD \[(.*)\]$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    (unit,) = re.findall(
        r"^ExecStart=/usr/bin/env (.*)$", (DEPLOY / "systemd/argus.service").read_text(), re.MULTILINE
    )
    for words in (container["command"], [word.strip(' "') for word in image.split(",")], unit.split()):
        assert words[:2] == ["argus", "serve"]
        build_parser("serve", load("serve")).parse_args(words[2:])


def test_the_rules_for_the_operator_are_the_rules() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "argus.rules.yml").read_text())
    assert of_kind("PrometheusRule")["spec"] == rules


def test_kustomize_puts_it_together() -> None:
    wanted = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    assert all((KUBERNETES / name).exists() for name in wanted)
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed; the files it names are there")
    done = subprocess.run(
        [kubectl, "kustomize", str(KUBERNETES)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    built = [one["kind"] for one in yaml.safe_load_all(done.stdout)]
    assert sorted(built) == sorted(one["kind"] for name in wanted for one in documents(name))


def test_the_linter_takes_the_container_file() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    command = [hadolint, "--failure-threshold", "info", str(DEPLOY / "Containerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_container_runs_as_nobody_in_particular_with_pinned_versions() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert "\nUSER 10001\n" in text and "--constraint deploy/constraints.txt" in text
    extras = re.findall(r"'\.\[(.*)\]'", text)[0].split(",")
    project = (DEPLOY.parent / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)


def test_systemd_takes_the_service_unit() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    command = ["systemd-analyze", "verify", str(DEPLOY / "systemd" / "argus.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_vector_example_says_that_nobody_ran_it() -> None:
    text = (DEPLOY / "vector" / "vector.yaml").read_text()
    config = yaml.safe_load(text)
    assert text.startswith("# NOT VALIDATED")
    named = {*config["sources"], *config["transforms"]}
    for stage in (*config["transforms"].values(), *config["sinks"].values()):
        assert set(stage["inputs"]) <= named
    sink = config["sinks"]["argus"]
    assert sink["uri"].endswith("/v1/events")
    # Lines would go out as application/x-ndjson, which the service does not take.
    assert "framing" not in sink and sink["encoding"] == {"codec": "json"}
    assert json.loads(f"{sink['payload_prefix']}[]{sink['payload_suffix']}") == {"events": []}
    told = re.findall(r'^ *"(\w+)"$', config["transforms"]["event"]["source"], re.MULTILINE)
    assert {*KERNEL_EVENTS} - {"aer"} <= set(told) and told.index("sxid") < told.index("xid")


def test_ranks_are_told_to_listen_where_the_daemonset_listens() -> None:
    (processor,) = of_kind("DaemonSet")["spec"]["template"]["spec"]["containers"]
    socket = processor["command"][processor["command"].index("--socket") + 1]
    for text in ((DEPLOY.parent / "docs" / "kubernetes.md"), KUBERNETES / "daemonset.yaml"):
        told = re.findall(r"ARGUS_SOCKET=([^\s`;]+)", text.read_text())
        assert told == [socket], text
