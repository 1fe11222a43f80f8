"""`pystreams new`: what it writes, and what it refuses. tests/distribution runs what it wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pystreams import StreamsConfig, serdes
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.commands.development.new import new
from pystreams.config import read_config_file
from pystreams.testing import TopologyTestDriver
from pystreams.topology.plan.topology_plan import TopologyPlan


def test_an_application_is_written_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(new, ["orders"])

    assert answer.exit_code == 0, answer.output
    assert sorted(path.name for path in Path("orders").iterdir()) == [
        "README.md",
        "lines.txt",
        "production.toml",
        "requirements.txt",
        "test_orders.py",
        "topology.py",
    ]
    loaded = load_topology("orders/topology.py")
    plan = TopologyPlan(loaded.topology, "orders")
    assert (plan.source_topics(), plan.sink_topics()) == (["orders-lines"], ["orders-counts"])
    assert "pystreams run topology.py --dev" in answer.output
    assert "$" not in Path("orders/README.md").read_text()


def test_it_passes_over_records_without_a_value(tmp_path: Path) -> None:
    CliRunner().invoke(new, ["orders", "--directory", str(tmp_path)])
    loaded = load_topology(str(tmp_path / "topology.py"))
    with TopologyTestDriver(loaded.topology, loaded.config) as driver:
        lines = driver.create_input_topic("orders-lines", serdes.STRING, serdes.STRING)
        counts = driver.create_output_topic("orders-counts", serdes.STRING, serdes.LONG)

        lines.pipe_input("key", None)
        lines.pipe_input("key", "Ahoy")

        assert counts.read_key_values_to_map() == {"ahoy": 1}


def test_a_directory_with_a_blank_is_told_as_a_shell_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    answer = CliRunner().invoke(new, ["orders", "--directory", "a b"])

    assert "cd 'a b'\n" in answer.output


def test_its_configuration_of_production_is_one(tmp_path: Path) -> None:
    CliRunner().invoke(new, ["orders", "--directory", str(tmp_path / "a" / "b")])
    config = StreamsConfig.of(
        read_config_file(tmp_path / "a" / "b" / "production.toml"), application_id="orders"
    )

    assert config.replication_factor == 3
    assert str(config.state_dir) == "/var/lib/orders"


def test_applications_side_by_side_are_tested_together(tmp_path: Path) -> None:
    for name in ("orders", "eu.refunds-2"):
        CliRunner().invoke(new, [name, "--directory", str(tmp_path / name)])

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout


def test_nothing_that_is_there_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "topology.py").write_text("mine")
    answer = CliRunner().invoke(new, ["orders", "--directory", str(tmp_path)])

    assert answer.exit_code == 1
    assert f"{tmp_path} is not empty" in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["topology.py"]


@pytest.mark.parametrize("name", ["", "two words", "a/b", ".hidden", "é"])
def test_a_name_that_kafka_would_refuse_is_refused(name: str) -> None:
    answer = CliRunner().invoke(new, [name])

    assert answer.exit_code == 2
    assert "can't be an application.id" in answer.stderr
