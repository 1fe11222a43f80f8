"""`pystreams run --backfill`: its options, and the command it hands off to."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from pystreams import TopicPartition
from pystreams.backfill.need import BackfillNeed
from pystreams.cli.backfill import backfill
from pystreams.cli.backfill_options import FOR_RUN_OPTION
from pystreams.cli.run import RunOptions, run
from pystreams.cli.run_backfill import FirstBackfill

FLOW = """
from pystreams.topology.topology import Topology
topology = Topology()
topology.add_source('source', 'in')
"""


@pytest.fixture
def flow(tmp_path: Path) -> str:
    file = tmp_path / "flow.py"
    file.write_text(FLOW)
    return str(file)


@pytest.mark.parametrize(
    "option",
    [
        ["--backfill-above", "5"],
        ["--backfill-output", "here"],
        ["--master", "local[2]"],
        ["--spark-conf", "spark.executor.memory=4g"],
    ],
)
def test_options_of_a_backfill_need_one(flow: str, option: list[str]) -> None:
    answer = CliRunner().invoke(run, [flow, *option])

    assert answer.exit_code == 2
    assert f"{option[0]} is for --backfill" in answer.stderr


@pytest.mark.sweep
def test_without_a_broker_the_exit_code_says_so_before_anything_is_done(
    flow: str, tmp_path: Path
) -> None:
    keys = ("application.id=a", "bootstrap.servers=127.0.0.1:1", "request.timeout.ms=1500")
    words = [word for key in keys for word in ("-c", key)]
    output = tmp_path / "staged"
    answer = CliRunner().invoke(run, [flow, *words, "--backfill", "--backfill-output", str(output)])

    assert answer.exit_code == 3, answer.output
    assert "Traceback" not in answer.output
    assert not output.exists()


def first(**chosen: object) -> FirstBackfill:
    given = {
        "backfill": True,
        "backfill_above": None,
        "backfill_output": None,
        "master": None,
        "spark_conf": (),
    }
    return FirstBackfill(**(given | chosen))  # type: ignore[arg-type]


def options(**chosen: object) -> RunOptions:
    settings = ("application.id=a", "bootstrap.servers=b:1")
    given = RunOptions("flow.py", False, settings, None, 4, None, None)
    return replace(given, **chosen)  # type: ignore[arg-type]


def test_backfill_is_that_of_the_same_application_with_its_outputs() -> None:
    command = first().command(
        options(config_file=Path("app.toml")), "info", BackfillNeed(True, "much"), is_readable=True
    )

    assert command[:4] == [sys.executable, "-m", "pystreams", "backfill"]
    assert command[4:] == [
        *("flow.py", FOR_RUN_OPTION, "--log-level", "info", "--log-format", "console"),
        *("-c", "application.id=a", "-c", "bootstrap.servers=b:1", "--config", "app.toml"),
        *("--publish-outputs", "--seed-state"),
    ]


def test_backfill_is_told_where_spark_runs_and_where_the_history_begins() -> None:
    need = BackfillNeed(
        True, "published in part", with_outputs=False, starts={TopicPartition("in", 1): 12}
    )
    chosen = first(
        master="local[2]", spark_conf=("spark.a=b", "spark.c=d"), backfill_output=Path("staged")
    )
    command = chosen.command(options(dev=True), "debug", need, is_readable=False)

    assert "--publish-outputs" not in command
    words = " ".join(command)
    assert "--log-level debug --log-format json --dev" in words
    assert "--master local[2] --spark-conf spark.a=b --spark-conf spark.c=d" in words
    assert words.endswith("--output staged --seed-state --start in:1=12")


def test_command_is_one_that_backfill_understands(flow: str, tmp_path: Path) -> None:
    """Its options are spelled in two modules: an unknown one would be wrong usage."""
    need = BackfillNeed(True, "much", starts={TopicPartition("in", 0): 1})
    chosen = first(
        master="local[2]", spark_conf=("spark.a=b",), backfill_output=tmp_path / "staged"
    )
    command = chosen.command(options(topology=flow), "info", need, is_readable=True)
    understood = backfill.make_context("backfill", command[4:]).params

    assert (understood["topology"], understood["is_before_run"]) == (flow, True)
    assert (understood["master"], understood["output"]) == ("local[2]", tmp_path / "staged")
    assert (understood["start"], understood["spark_conf"]) == (("in:0=1",), ("spark.a=b",))


def test_help_says_what_it_does_to_outputs_and_what_it_needs() -> None:
    told = " ".join(CliRunner().invoke(run, ["--help"]).output.split())

    assert "outputs of that history are written too" in told
    assert "Default: 1,000,000" in told
    assert "pip install 'pystreams[spark]'" in told
    assert "--before-run" not in " ".join(CliRunner().invoke(backfill, ["--help"]).output.split())
