"""The manifests: right by Kubernetes' own schemas, and what they give the command it takes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from pystreams.cli.commands.applications.run import run
from pystreams.cli.processes.children import _MARGIN_S
from pystreams.cli.processes.stop_request import STOP_TIMEOUT_S
from pystreams.config import Source, StreamsConfig, from_environment
from tests.docker.dockerfile import FINAL, ROOT, stages

MANIFESTS = ROOT / "docker" / "kubernetes"
WORKLOADS = ("StatefulSet", "Deployment")
VERSIONS = ("1.30", "1.33", "1.37")
"""Of Kubernetes: an old one, and those after it."""
VALUES = {"POD_NAME": "orders-2", "POD_IP": "10.0.0.7"}


def documents(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MANIFESTS / f"{file}.yaml").read_text("utf-8")))


def objects(workload: str) -> dict[str, dict[str, Any]]:
    """Return what is applied with a workload, by kind."""
    files = (workload.lower(), "configuration")
    return {document["kind"]: document for file in files for document in documents(file)}


def pod(workload: str) -> dict[str, Any]:
    spec = objects(workload)[workload]["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def container(workload: str) -> dict[str, Any]:
    (found,) = pod(workload)["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", [file.stem for file in sorted(MANIFESTS.iterdir())])
def test_a_manifest_is_right_by_kubernetes_schemas(file: str, version: str) -> None:
    for document in documents(file):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_selects_pods_selects_these(workload: str) -> None:
    found = objects(workload)
    labels = found[workload]["spec"]["template"]["metadata"]["labels"]
    assert found[workload]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    (spread,) = pod(workload)["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels


@pytest.mark.parametrize("workload", WORKLOADS)
def test_probes_ask_what_is_served_where_it_is_served(workload: str) -> None:
    found = container(workload)
    arguments = found["args"]
    address = arguments[arguments.index("--http") + 1]
    (port,) = found["ports"]
    assert address == f"0.0.0.0:{port['containerPort']}"
    for probe, path in (
        ("startupProbe", "/livez"),
        ("livenessProbe", "/livez"),
        ("readinessProbe", "/readyz"),
    ):
        assert found[probe]["httpGet"] == {"path": path, "port": port["name"]}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_pod_has_the_time_that_a_clean_stop_may_take(workload: str) -> None:
    assert pod(workload)["terminationGracePeriodSeconds"] > STOP_TIMEOUT_S + _MARGIN_S + 5


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_pod_has_no_rights_and_is_the_image_s_user(workload: str) -> None:
    user, _, group = stages()[FINAL].last("USER").partition(":")
    of_pod, of_container = pod(workload)["securityContext"], container(workload)["securityContext"]
    assert (of_pod["runAsUser"], of_pod["runAsGroup"]) == (int(user), int(group))
    assert of_pod["runAsNonRoot"]
    assert of_pod["fsGroup"] == int(group)
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod(workload)["automountServiceAccountToken"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_is_mounted_is_declared_and_what_is_written_is_no_part_of_the_image(
    workload: str,
) -> None:
    claims = objects(workload)[workload]["spec"].get("volumeClaimTemplates", [])
    declared = {volume["name"] for volume in [*pod(workload)["volumes"]]}
    declared |= {claim["metadata"]["name"] for claim in claims}
    mounts = {mount["mountPath"]: mount for mount in container(workload)["volumeMounts"]}
    assert {mount["name"] for mount in mounts.values()} == declared
    writable = {path for path, mount in mounts.items() if not mount.get("readOnly")}
    assert writable == {stages()[FINAL].last("VOLUME"), "/tmp"}


def test_state_outlives_a_pod_of_the_stateful_set_and_no_other() -> None:
    assert "volumeClaimTemplates" in objects("StatefulSet")["StatefulSet"]["spec"]
    (state,) = (v for v in pod("Deployment")["volumes"] if v["name"] == "state")
    assert "emptyDir" in state


def test_pods_of_the_stateful_set_find_each_other_by_their_names() -> None:
    found = objects("StatefulSet")
    service, workload = found["Service"], found["StatefulSet"]
    assert service["spec"]["clusterIP"] == "None"
    assert workload["spec"]["serviceName"] == service["metadata"]["name"]
    told = f"application.server=$(POD_NAME).{service['metadata']['name']}:8080"
    assert told in container("StatefulSet")["args"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_secrets_and_configuration_that_are_asked_for_exist(workload: str) -> None:
    found = objects(workload)
    for volume in pod(workload)["volumes"]:
        if "configMap" in volume:
            assert volume["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
        if "secret" in volume:
            assert volume["secret"]["secretName"] == found["Secret"]["metadata"]["name"]
            keys = {item["key"] for item in volume["secret"]["items"]}
            assert keys <= set(found["Secret"]["stringData"])
    for variable in container(workload)["env"]:
        if "secretKeyRef" in variable["valueFrom"]:
            reference = variable["valueFrom"]["secretKeyRef"]
            assert reference["name"] == found["Secret"]["metadata"]["name"]
            assert reference["key"] in found["Secret"]["stringData"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_command_takes_what_it_is_given(workload: str, tmp_path: Path) -> None:
    """The files are put where they are mounted, and the variables in their place."""
    found = objects(workload)
    (tmp_path / "application.toml").write_text(found["ConfigMap"]["data"]["application.toml"])
    (tmp_path / "http-token").write_text(found["Secret"]["stringData"]["http-token"])
    (tmp_path / "orders.py").write_text("")
    command, *arguments = container(workload)["args"]
    assert command == "run"
    words = []
    for argument in arguments:
        text = argument
        for variable, value in VALUES.items():
            text = text.replace(f"$({variable})", value)
        folder, slash, name = text.rpartition("/")
        mounted = folder in {"/app", "/etc/pystreams", "/etc/pystreams-secrets"}
        words.append(str(tmp_path / name) if slash and mounted else text)
    assert not any("$(" in word for word in words)

    with run.make_context("run", words) as context:
        settings = dict(pair.split("=", 1) for pair in context.params["settings"])

    variables = {variable["name"]: "secret" for variable in container(workload)["env"]}
    config = StreamsConfig.from_sources(
        [
            Source("-c", settings),
            Source("environment", from_environment(variables | stages()[FINAL].environment())),
            Source("file", tomllib.loads(found["ConfigMap"]["data"]["application.toml"])),
        ]
    )
    assert config.application_id == "orders"
    assert config.state_dir == Path(stages()[FINAL].last("VOLUME"))
    assert config.overrides["sasl.password"] == "secret"
    own_identity = config.overrides.get("consumer.group.instance.id")
    assert own_identity == ("orders-2" if workload == "StatefulSet" else None)
    session_ms = config.overrides.get("consumer.session.timeout.ms")
    assert session_ms == (None if workload == "StatefulSet" else "10000")
