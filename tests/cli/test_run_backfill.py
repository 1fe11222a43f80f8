"""`pystreams run --backfill`: its options, and the command it hands off to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pystreams import TopicPartition
from pystreams.backfill.first_backfill import BackfillNeed
from pystreams.cli.commands.applications.run import run
from pystreams.cli.commands.history.backfill import backfill
from pystreams.cli.options.backfill import FOR_RUN_OPTION
from pystreams.cli.options.groups import ApplicationOptions, LogOptions, SparkOptions
from pystreams.cli.processes.first_backfill import FirstBackfill, FirstBackfillOptions

FLOW = """
from pystreams.topology.graph.topology import Topology
topology = Topology()
topology.add_source('source', 'in')
config = {"default.key.serde": "string", "default.value.serde": "string"}
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


def application(topology: str = "flow.py", **chosen: Any) -> ApplicationOptions:
    settings = ("application.id=a", "bootstrap.servers=b:1")
    return ApplicationOptions(topology, settings=settings, **chosen)


def command(
    need: BackfillNeed,
    of: ApplicationOptions,
    *,
    output: Path | None = None,
    spark: SparkOptions | None = None,
    log: LogOptions | None = None,
) -> list[str]:
    options = FirstBackfillOptions(backfill=True, backfill_output=output)
    log = log or LogOptions("info", "console")
    return FirstBackfill(of, options, spark or SparkOptions(), log).command(need)


def test_backfill_is_that_of_the_same_application_with_its_outputs() -> None:
    words = command(BackfillNeed(True, "much"), application(config_file=Path("app.toml")))

    assert words[:4] == [sys.executable, "-m", "pystreams", "backfill"]
    assert words[4:] == [
        *("flow.py", FOR_RUN_OPTION, "--log-level", "info", "--log-format", "console"),
        *("-c", "application.id=a", "-c", "bootstrap.servers=b:1", "--config", "app.toml"),
        *("--publish-outputs", "--seed-state"),
    ]


def test_backfill_is_told_where_spark_runs_and_where_the_history_begins() -> None:
    need = BackfillNeed(
        True, "published in part", with_outputs=False, starts={TopicPartition("in", 1): 12}
    )
    given = command(
        need,
        application(dev=True),
        output=Path("staged"),
        spark=SparkOptions("local[2]", ("spark.a=b", "spark.c=d")),
        log=LogOptions("debug", "json"),
    )

    assert "--publish-outputs" not in given
    words = " ".join(given)
    assert "--log-level debug --log-format json --dev" in words
    assert "--master local[2] --spark-conf spark.a=b --spark-conf spark.c=d" in words
    assert words.endswith("--output staged --seed-state --start in:1=12")


def test_command_is_one_that_backfill_understands(flow: str, tmp_path: Path) -> None:
    """Its options are spelled in two modules: an unknown one would be wrong usage."""
    need = BackfillNeed(True, "much", starts={TopicPartition("in", 0): 1})
    spark = SparkOptions("local[2]", ("spark.a=b",))
    words = command(need, application(flow), output=tmp_path / "staged", spark=spark)
    understood = backfill.make_context("backfill", words[4:]).params

    assert (understood["topology"], understood["is_before_run"]) == (flow, True)
    assert (understood["master"], understood["output"]) == ("local[2]", tmp_path / "staged")
    assert (understood["start"], understood["spark_conf"]) == (("in:0=1",), ("spark.a=b",))


def test_help_says_what_it_does_to_outputs_and_what_it_needs() -> None:
    told = " ".join(CliRunner().invoke(run, ["--help"]).output.split())

    assert "outputs of that history are written too" in told
    assert "Default: 1,000,000" in told
    assert "pip install 'pystreams-kafka[spark]'" in told
    assert "--before-run" not in " ".join(CliRunner().invoke(backfill, ["--help"]).output.split())
