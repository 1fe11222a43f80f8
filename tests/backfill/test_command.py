"""`pystreams backfill` over an archive, in this process, with a Spark session of its own kind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from pystreams.backfill import ArchiveSource, PublishingSettings, publish
from pystreams.backfill.execution import backfill as running
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.publisher import Publisher
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.commands.history.backfill import _Backfill, backfill
from pystreams.testing.simulation import (
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)

TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

config = {"application.id": "app", "statestore.cache.max.bytes": 0}
builder = StreamsBuilder()
source = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
source.group_by_key().count(name="counts").to_stream().to("out")
"""

TWO_STAGES = """
from pystreams import StreamsBuilder, serdes

types = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
config = {"application.id": "app", "statestore.cache.max.bytes": 0}
builder = StreamsBuilder()
source = builder.stream("in", **types).map_values(lambda value: None if value == "y" else value)
source.group_by_key().count(name="by-key")
groups = source.group_by(lambda key, value: "all", name="together", **types)
groups.count(name="counts").to_stream().to("out")
"""


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """An archive without a topic column, whose columns have names of their own."""
    (tmp_path / "counts.py").write_text(TOPOLOGY)
    archive = {
        "part": pa.array([0, 1, 0], pa.int32()),
        "offset": pa.array([4, 0, 5], pa.int64()),
        "at": pa.array([10, 20, 30], pa.int64()),
        "key": pa.array([b"a", b"b", b"a"], pa.binary()),
        "value": pa.array([b"x", b"y", b"z"], pa.binary()),
    }
    parquet.write_table(pa.table(archive), tmp_path / "archive.parquet")
    return [
        str(tmp_path / "counts.py"),
        *("--from", f"parquet:{tmp_path / 'archive.parquet'}", "--topic", "in"),
        *("--column", "partition=part", "--column", "timestamp=at"),
        *("--partitions", "in=2", "--no-publish", "--output", str(tmp_path / "staged")),
    ]


def command(arguments: list[str]) -> str:
    result = CliRunner().invoke(backfill, arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_archive_that_lacks_a_topic_which_the_broker_knows_is_not_published(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = 'stream("more", key_serde=serdes.STRING, value_serde=serdes.STRING)'
    (tmp_path / "counts.py").write_text(f'{TOPOLOGY}builder.{more}.to("out-too")\n')
    broker = SimulatedBroker(ManualClock(), Faults(0))
    for topic in ("in", "more", "out", "out-too"):
        broker.create_topic(topic, 2)
    admin = SimulatedClients(broker, Lifeline("publisher", broker.faults)).admin()
    monkeypatch.setattr(_Backfill, "_make_admin", lambda _: admin)
    arguments = [*arguments, "-c", "bootstrap.servers=none:9092", "--publish"]

    result = CliRunner().invoke(backfill, arguments)

    assert result.exit_code == 1
    assert "no records of topic 'more'" in result.output
    assert "--partitions more=2" in result.output


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_results_of_an_archive_without_offsets_are_a_data_set_and_are_not_published(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Publisher, "run", lambda *_, **__: pytest.fail("it was published"))
    told = command([*arguments, "--column", "offset=", "-c", "default.key.serde=string"])

    assert "Data set:" in told
    staged, loaded = tmp_path / "staged", load_topology(arguments[0])
    settings = {**loaded.config, "bootstrap.servers": "nobody.invalid:9092"}
    with pytest.raises(PublishingRefusedError, match="archive without offsets"):
        publish(loaded.topology, {**settings, "default.key.serde": "string"}, output=staged)
    with pytest.raises(PublishingRefusedError, match=r"made with another default\.key\.serde"):
        publish(loaded.topology, {**settings, "default.key.serde": "long"}, output=staged)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_call_that_is_to_publish_refuses_an_archive_without_offsets_before_it_runs(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "refuse_used_group", lambda *_, **__: None)
    loaded = load_topology(arguments[0])
    columns = {"partition": "part", "timestamp": "at", "offset": None}
    source = ArchiveSource(str(tmp_path / "archive.parquet"), columns=columns, topic="in")
    config = {**loaded.config, "bootstrap.servers": "nobody.invalid:9092"}
    staged, settings = tmp_path / "staged", PublishingSettings()

    with pytest.raises(PublishingRefusedError, match="would be results of an archive without off"):
        running.run(loaded.topology, config, source=source, output=staged, publishing=settings)

    assert not (staged / "begun.json").exists()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_results_of_an_archive_with_guessed_partitions_are_a_data_set_and_are_not_published(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = SimulatedBroker(ManualClock(), Faults(0))
    for topic in ("in", "out"):
        broker.create_topic(topic, 2)
    admin = SimulatedClients(broker, Lifeline("publisher", broker.faults)).admin()
    monkeypatch.setattr(_Backfill, "_make_admin", lambda _: admin)
    monkeypatch.setattr(Publisher, "run", lambda *_, **__: pytest.fail("it was published"))
    arguments = [*arguments, "--column", "partition=", "--gaps-allowed"]
    published = [*arguments, "-c", "bootstrap.servers=none:9092", "--publish"]

    refused = CliRunner().invoke(backfill, published)
    assert (refused.exit_code, (tmp_path / "staged").exists()) == (2, False)
    assert "nothing shows that the computed ones are Kafka's" in refused.output
    assert "Data set:" in command(arguments)
    staged_before = CliRunner().invoke(backfill, published)

    assert staged_before.exit_code == 1
    assert "an archive without partitions, whose offsets may have gaps" in staged_before.output


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_summary_tells_each_stage_s_figures(arguments: list[str], tmp_path: Path) -> None:
    """Both drop the record that has no value by then."""
    (tmp_path / "counts.py").write_text(TWO_STAGES)

    told = command(arguments)

    lines = told.splitlines()
    table = lines.index(next(line for line in lines if line.startswith("stage ")))
    first, second = (line.split() for line in lines[table + 1 : table + 3])
    repartition = "app-together-repartition"
    assert first[:-2] == ["1", "in", "2", "3", "1", repartition, "3", "by-key", "1"]
    assert second[:-2] == ["2", repartition, "2", "3", "1", "out", "2", "counts", "1"]
    for stage in (first, second):
        seconds, rate = map(float, stage[-2:])
        assert 3 / (seconds + 0.05) - 0.5 <= rate <= 3 / max(seconds - 0.05, 0.01) + 0.5


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_archive_is_shown_then_staged_and_then_complete(
    arguments: list[str], tmp_path: Path
) -> None:
    shown = command([*arguments, "--dry-run"])
    assert not (tmp_path / "staged").exists()
    staged = command(arguments)
    again = command(arguments)

    assert "1 stage; nothing was run" in shown
    assert "The history goes up to about" not in shown, "no limit of a plain changelog is moved"
    assert f"{(tmp_path / 'archive.parquet').stat().st_size:,}" in shown
    assert "Stage 1 of 1: 3 records of in" in staged
    assert "3 output records of 1 topic, 2 rows of 1 store" in staged
    assert "are complete" in again
    assert "Data set" not in again, "it is there already"
    dataset = tmp_path / "staged" / "dataset"
    rows = parquet.read_table(dataset / "outputs" / "out").to_pylist()
    assert sorted((row["key"], row["value"]) for row in rows) == [("a", 1), ("a", 2), ("b", 1)]
    rows = parquet.read_table(dataset / "stores" / "counts").to_pylist()
    assert sorted((row["key"], row["value"]) for row in rows) == [("a", 2), ("b", 1)]
    files = StagingDirectory(tmp_path / "staged").files(0)
    counts = [
        (row.key, row.value[-1] if row.value else None)
        for task in range(2)
        for row in files.rows(ResultKind.OUTPUT, "out", task)
    ]
    assert counts == [(b"a", 1), (b"a", 2), (b"b", 1)]
