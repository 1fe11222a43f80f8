"""`pystreams describe`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pystreams.cli.commands.development.describe import describe
from pystreams.cli.display.mermaid import to_mermaid
from pystreams.topology.graph.description import (
    NodeDescription,
    SubtopologyDescription,
    TopologyDescription,
)

CODE = """
from pystreams.topology.graph.topology import Topology

topology = Topology()
topology.add_source("orders", "orders-in")
topology.add_sink("out", "orders-out", "orders")
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "described.py"
    path.write_text(CODE)
    return str(path)


def test_text_is_kafka_streams(file: str) -> None:
    answer = CliRunner().invoke(describe, [file])

    assert answer.exit_code == 0
    assert answer.stdout.startswith("Topologies:\n   Sub-topology: 0\n")
    assert "Source: orders (topics: [orders-in])" in answer.stdout


def test_mermaid_of_a_small_topology(file: str) -> None:
    answer = CliRunner().invoke(describe, [file, "--mermaid"])

    assert answer.exit_code == 0
    assert answer.stdout == (
        "flowchart TD\n"
        '  subgraph subtopology0["Sub-topology 0"]\n'
        '    node0(["orders"])\n'
        '    node1(["out"])\n'
        "    node0 --> node1\n"
        "  end\n"
        '  topic2{{"orders-in"}}\n'
        '  topic3{{"orders-out"}}\n'
        "  topic2 --> node0\n"
        "  node1 --> topic3\n"
    )


def test_mermaid_joins_subtopologies_at_their_topic_and_draws_stores() -> None:
    written = SubtopologyDescription(
        0,
        (
            NodeDescription("in", "source", (), "orders-.*", (), (), ("out",)),
            NodeDescription("out", "sink", ("by-user",), None, (), ("in",), ()),
        ),
    )
    read = SubtopologyDescription(
        1,
        (
            NodeDescription("again", "source", ("by-user",), None, (), (), ("count",)),
            NodeDescription("count", "processor", (), None, ('a "store"',), ("again",), ("any",)),
            NodeDescription("any", "sink", (), None, (), ("count",), ()),
        ),
    )

    drawn = to_mermaid(TopologyDescription((written, read)))

    assert drawn.count('{{"by-user"}}') == 1
    assert '{{"orders-.*"}}' in drawn
    assert '{{"topic chosen by record"}}' in drawn
    assert '[("a #quot;store#quot;")]' in drawn
    assert '["count"]' in drawn
    assert drawn.count("<-.->") == 1


def test_a_wrong_reference_is_wrong_usage() -> None:
    answer = CliRunner().invoke(describe, ["nowhere.py"])

    assert answer.exit_code == 2
    assert "Error: nowhere.py does not exist" in answer.stderr


def test_serdes_that_are_missing_are_told_beside_the_text(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYSTREAMS_DEFAULT_KEY_SERDE", "PYSTREAMS_DEFAULT_VALUE_SERDE"):
        monkeypatch.delenv(name, raising=False)
    told = CliRunner().invoke(describe, [file])
    assert told.exit_code == 0
    assert "Unless its configuration says otherwise, it will not run:" in told.stderr
    assert f"add_source(...) at {file}:5: source 'orders' (orders-in) has no key" in told.stderr

    monkeypatch.setenv("PYSTREAMS_DEFAULT_KEY_SERDE", "string")
    monkeypatch.setenv("PYSTREAMS_DEFAULT_VALUE_SERDE", "string")
    assert CliRunner().invoke(describe, [file]).stderr == ""


WITHOUT_INPUT = """
from pystreams import StreamsBuilder
topology = StreamsBuilder()
"""
WITH_A_STORE_OF_NOBODY = """
from pystreams import Stores, StreamsBuilder, serdes
kept = Stores.in_memory_key_value_store("kept")
topology = StreamsBuilder()
topology.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
topology.add_state_store(Stores.key_value_store_builder(kept, serdes.STRING, serdes.STRING))
"""


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (WITHOUT_INPUT, "the topology reads no topic: add a source"),
        (WITH_A_STORE_OF_NOBODY, "state store 'kept' is connected to no processor"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--mermaid"]])
def test_a_topology_that_can_not_run_is_told_beside_the_text(
    file: str, options: list[str], code: str, told: str
) -> None:
    Path(file).write_text(f"from pystreams import *\nfrom pystreams.serdes import STRING\n{code}\n")

    answer = CliRunner().invoke(describe, [file, *options])

    assert answer.exit_code == 0, answer.output
    assert f"It will not run:\n{told}" in answer.stderr


@pytest.mark.parametrize("options", [[], ["--json"], ["--mermaid"]])
def test_what_a_module_prints_while_it_is_loaded_is_no_part_of_the_output(
    file: str, options: list[str]
) -> None:
    silent = CliRunner().invoke(describe, [file, *options])
    Path(file).write_text(f"print('loading'){CODE}")

    answer = CliRunner().invoke(describe, [file, *options])

    assert answer.exit_code == 0
    assert answer.stdout == silent.stdout
    assert answer.stderr == f"loading\n{silent.stderr}"


def test_a_topology_that_reads_what_it_writes_is_warned_of(file: str) -> None:
    path = Path(file)
    path.write_text(CODE.replace("orders-out", "orders-in"))

    answer = CliRunner().invoke(describe, [file])

    assert answer.exit_code == 0
    assert f"WARNING: sink 'out' (add_sink at {file}:6) writes to topic 'orders-in'" in (
        answer.stderr
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-c", "fooo=1"], "fooo is no configuration key"),
        (["-c", "topology.optimization=foo"], "topology.optimization = 'foo'"),
        (["--config", "{folder}/broken.toml"], "broken.toml"),
    ],
)
def test_a_wrong_configuration_is_wrong_usage(
    file: str, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "broken.toml").write_text("this is = not [ toml\n")

    answer = CliRunner().invoke(describe, [file, *(o.format(folder=tmp_path) for o in options)])

    assert (answer.exit_code, answer.stdout) == (2, "")
    assert message in answer.stderr


def test_a_misspelt_environment_variable_is_wrong_usage(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSTREAMS_TOPOLOGY_OPTIMISATION", "all")

    answer = CliRunner().invoke(describe, [file])

    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "did you mean PYSTREAMS_TOPOLOGY_OPTIMIZATION?" in answer.stderr


def test_neither_an_id_nor_a_broker_is_needed_and_an_id_may_be_spelled_as_in_python(
    file: str,
) -> None:
    path = Path(file)
    path.write_text(CODE + 'config = {"application_id": "orders"}\n')

    answer = CliRunner().invoke(describe, [file])

    assert answer.exit_code == 0, answer.stderr
