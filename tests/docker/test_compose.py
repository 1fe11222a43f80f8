"""The container files, as far as they can be checked without Docker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pystreams.broker import KAFKA_VERSION

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_compose_runs_the_same_kafka_as_the_development_broker(compose: dict[str, Any]) -> None:
    assert compose["services"]["broker"]["image"] == f"apache/kafka:{KAFKA_VERSION}"


def test_application_waits_for_a_healthy_broker(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["app"]["depends_on"]["broker"]["condition"] == "service_healthy"
    assert services["broker"]["healthcheck"]["test"][0] == "CMD"


def test_application_reaches_the_broker_by_its_advertised_listener(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    (option,) = (
        part for part in services["app"]["command"] if part.startswith("bootstrap.servers=")
    )
    advertised = services["broker"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INTERNAL://{option.removeprefix('bootstrap.servers=')}" in advertised.split(",")


def test_volumes_are_declared(compose: dict[str, Any]) -> None:
    used = {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service["volumes"]
        if not volume.startswith((".", "/"))
    }
    assert used == set(compose["volumes"])


def test_environment_values_are_strings(compose: dict[str, Any]) -> None:
    """YAML reads a bare false as a boolean, which compose refuses."""
    environment = compose["services"]["broker"]["environment"]
    assert {type(value) for value in environment.values()} == {str}


def test_dockerfile_copies_only_what_its_ignore_file_lets_through() -> None:
    """The ignore file shuts out everything first; a copy of what is left out would fail."""
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
    ignored = (ROOT / "docker" / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    let_through = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored

    for line in dockerfile.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _target = line.removeprefix("COPY ").split()
            assert set(sources) <= let_through
            assert all((ROOT / source).exists() for source in sources)


def test_image_does_not_run_as_root() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
    last_stage = dockerfile.split("\nFROM ")[-1]
    assert "USER pystreams" in last_stage
    assert last_stage.index("USER pystreams") < last_stage.index("ENTRYPOINT")
