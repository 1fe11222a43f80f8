"""Options that several commands have reach each of them as one argument."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pystreams.cli.main import pystreams
from pystreams.cli.options.groups import (
    ApplicationOptions,
    LogOptions,
    SparkOptions,
    application_options,
    log_options,
    spark_options,
    topology_argument,
)


def test_options_of_a_group_are_one_argument_and_leave_the_others_alone(tmp_path: Path) -> None:
    given: dict[str, object] = {}
    file = tmp_path / "app.toml"
    file.touch()

    @click.command()
    @topology_argument
    @application_options
    @spark_options
    @click.option("--own")
    @log_options()
    def command(**arguments: object) -> None:
        given.update(arguments)

    words = ["flow.py", "-c", "a=1", "-c", "b=2", "--config", str(file), "--spark-conf", "c=3"]
    answer = CliRunner().invoke(command, [*words, "--own", "x", "--log-format", "json"])

    assert answer.exit_code == 0, answer.output
    assert given == {
        "application": ApplicationOptions("flow.py", False, ("a=1", "b=2"), file),
        "spark": SparkOptions(None, ("c=3",)),
        "log": LogOptions("info", "json"),
        "own": "x",
    }


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["backfill"],
        ["export", "--output", "out"],
        ["rescale", "--to-application-id", "b"],
        ["recover"],
        ["reset"],
        ["describe"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_says_that_its_topology_is_missing(words: list[str]) -> None:
    answer = CliRunner().invoke(pystreams, [*words, "nowhere.py"])

    assert answer.exit_code == 2, answer.output
    assert "nowhere.py does not exist" in answer.output
