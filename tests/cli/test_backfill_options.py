"""`pystreams backfill`: what its options mean, and which do not go together."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pystreams import TopicPartition
from pystreams.backfill import KafkaBound
from pystreams.cli.commands.history.backfill import _Backfill, backfill
from pystreams.cli.options.values import bound_of, columns_of, counts, pairs
from pystreams.testing.simulation import (
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)

TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

config = {"application.id": "app"}
builder = StreamsBuilder()
builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING).to("out")
"""


@pytest.fixture
def topology(tmp_path: Path) -> str:
    file = tmp_path / "echo.py"
    file.write_text(TOPOLOGY)
    return str(file)


def failure(topology: str, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(backfill, [topology, *options])
    return result.exit_code, result.output


def test_offset_without_partition_is_that_of_all_partitions() -> None:
    found = bound_of(["in=12", "other:3=4"], "--start", {"in": 2})

    assert found == KafkaBound(
        {TopicPartition("in", 0): 12, TopicPartition("in", 1): 12, TopicPartition("other", 3): 4}
    )


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2025-01-31", 1_738_281_600_000),
        ("2025-01-31T12:00:00+01:00", 1_738_321_200_000),
        ("2025-01-31T11:00:00.5", 1_738_321_200_500),
    ],
)
def test_time_is_of_a_topic_and_in_utc_unless_it_says(text: str, time_ms: int) -> None:
    assert bound_of([f"in={text}"], "--end", {}) == KafkaBound({}, {"in": time_ms})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("in", r"write TOPIC\[:PARTITION\]=OFFSET"),
        ("in=soon", "neither an offset nor a time"),
        ("in:0=2025-01-31", "a time is for a whole topic"),
    ],
)
def test_bound_that_is_none_is_wrong_usage(text: str, told: str) -> None:
    with pytest.raises(click.UsageError, match=told):
        bound_of([text], "--start", {})


def test_column_without_a_name_is_one_the_archive_does_not_have() -> None:
    assert columns_of(["timestamp=event_time", "offset="]) == {
        "timestamp": "event_time",
        "offset": None,
    }


def test_pairs_and_counts_say_what_to_write() -> None:
    with pytest.raises(click.UsageError, match=r"--option \.\.\.: write KEY=VALUE"):
        pairs(["nothing"], "--option")
    with pytest.raises(click.UsageError, match="write TOPIC=N"):
        counts(["in=many"], "--partitions")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--no-publish"], "give --output DIR"),
        (["--no-publish", "--output", "x", "--publish-outputs"], "--no-publish says not to"),
        (
            ["--no-publish", "--output", "x", "--seed-state"],
            "--seed-state builds what is published",
        ),
        (["--topic", "in"], "--topic is for an archive"),
        (["--from", "parquet:x", "--start", "in=1"], "--start is for --from kafka"),
        (["--from", "parquet:x", "--column", "offset="], "add --no-publish (with --output DIR)"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    topology: str, options: list[str], told: str
) -> None:
    code, output = failure(topology, *options)

    assert (code, told in output) == (2, True), output


@pytest.mark.parametrize(
    "options", [["--dry-run"], ["--no-publish", "--output", "staged"]], ids=["plans", "runs"]
)
def test_option_of_the_connector_is_refused_where_workers_read_kafka_themselves(
    topology: str, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    broker = SimulatedBroker(ManualClock(), Faults(0))
    broker.create_topic("in", 1)
    admin = SimulatedClients(broker, Lifeline("backfill", broker.faults)).admin()
    monkeypatch.setattr(_Backfill, "_make_admin", lambda _: admin)
    monkeypatch.chdir(tmp_path)

    given = ["-c", "bootstrap.servers=none:9092", "--option", "minPartitions=8", *options]
    code, output = failure(topology, *given)

    assert (code, "'minPartitions' is for Spark's Kafka connector" in output) == (1, True), output


def test_without_the_spark_extra_the_message_says_how_to_get_it(
    topology: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    options = ["--from", "parquet:x", "--no-publish", "--output", str(tmp_path / "staged")]
    code, output = failure(topology, *options)

    assert code == 1
    assert "pip install 'pystreams-kafka[spark]'" in output


def test_help_says_that_wall_clock_punctuations_do_not_fire() -> None:
    output = " ".join(CliRunner().invoke(backfill, ["--help"]).output.split())

    assert "Punctuations on wall-clock time do not fire" in output
