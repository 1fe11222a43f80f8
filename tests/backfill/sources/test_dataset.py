"""Results as a data set: typed where the serde has a type that Parquet has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from pystreams import StreamsBuilder, Topology, serdes
from pystreams.backfill import write_dataset
from pystreams.backfill.exports.dataset_place import is_dataset_of
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.staging.directory import Manifest, StagingDirectory
from pystreams.backfill.staging.errors import StagingError
from pystreams.serdes import Serde
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import Row
from tests.backfill.own_topics.own_topologies import read_again_before
from tests.backfill.publishing.test_staged_publication import row, stage
from tests.backfill.sources.covered import CONFIG, TEXT
from tests.backfill.spark.on_spark import run_on_spark

LAST_YEAR = 9999


def typed() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT)
    stream.map(lambda _, value: (int(value), -int(value))).to(
        "numbers", key_serde=serdes.INT, value_serde=serdes.LONG
    )
    stream.map_values(lambda value: int(value) / 4).to("halves", value_serde=serdes.DOUBLE)
    stream.map_values(lambda value: {"n": int(value)}).to("json", value_serde=serdes.JSON)
    stream.map_values(lambda value: value.encode()).to("raw", value_serde=serdes.BYTES)
    again = stream.group_by(lambda _, value: value, name="again", **TEXT)
    again.count(name="counts")
    stream.filter(lambda _, value: value == "no").group_by_key(**TEXT).count(name="empty")
    return builder.build()


def echo() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", **TEXT).to("out", **TEXT)
    return builder.build()


@dataclass(frozen=True)
class InEnvelopes:
    """A serde around another one, which the configuration may say; as it is, if that is bytes."""

    inner: Serde[Any] | None = None

    def with_default(self, default: Serde[Any] | None) -> Serde[Any]:
        return self.inner or default or self

    def is_complete(self) -> bool:
        return self.inner is not None

    def serializer(self, topic: str) -> Callable[[Any], bytes]:
        raise AssertionError("the default was to be filled in")

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        raise AssertionError("the default was to be filled in")


def left_to_defaults() -> Topology:
    builder = StreamsBuilder()
    envelopes = InEnvelopes()
    builder.stream("in", **TEXT).to("out", key_serde=envelopes, value_serde=envelopes)
    return builder.build()


def staged_rows(
    path: Path,
    count: int = 0,
    topology: Callable[[], Topology] = echo,
    times_ms: Sequence[int] = (),
) -> Path:
    """Stage output records as `echo` would give them, without Spark: a number, or of times."""
    staging = StagingDirectory(path)
    identity = BackfillIdentity.of(TopologyPlan(topology(), "app"), {"in": 1}, {0: 1}, {})
    staging.begin(identity, 7)
    rows = [
        row(ResultKind.OUTPUT, "out", number, b"v", time_ms)
        for number, time_ms in enumerate(times_ms or [5] * count)
    ]
    staging.finish(Manifest(identity, (stage(staging, 0, 0, "in", rows),), 7, 1.0))
    return path


def of(directory: Path) -> list[tuple[Any, Any]]:
    """Key and value of each row, in their order."""
    return [(row["key"], row["value"]) for row in parquet.read_table(directory).to_pylist()]


def test_keys_and_values_are_of_their_serde_s_type(spark: Any, tmp_path: Path) -> None:
    rows = [Row("in", 0, 0, 1500, b"a", b"7"), Row("in", 0, 1, 2500, None, b"-9")]
    done, _ = run_on_spark(typed(), CONFIG, rows, {"in": 1}, tmp_path)

    path = tmp_path / "dataset"
    written = write_dataset(done.path, typed(), CONFIG, path)

    assert written.outputs == dict.fromkeys(["halves", "json", "numbers", "raw"], 2)
    assert of(path / "outputs" / "numbers") == [(7, -7), (-9, 9)]
    assert of(path / "outputs" / "halves") == [("a", 1.75), (None, -2.25)]
    assert of(path / "outputs" / "json") == [("a", '{"n":7}'), (None, '{"n":-9}')]
    assert of(path / "outputs" / "raw") == [("a", b"7"), (None, b"-9")]
    times = parquet.read_table(path / "outputs" / "raw").to_pylist()
    assert [row["timestamp"].timestamp() for row in times] == [1.5, 2.5]
    assert written.stores == {"counts": 2, "empty": 0}
    assert of(path / "stores" / "empty") == []
    assert sorted(of(path / "stores" / "counts")) == [("-9", 1), ("7", 1)]


def test_data_set_is_of_the_results_it_was_made_of_and_replaced_as_a_whole(
    spark: Any, tmp_path: Path
) -> None:
    staged = staged_rows(tmp_path / "staged", 3)
    path = staged / "dataset"
    assert not is_dataset_of(path, staged)
    write_dataset(staged, echo(), CONFIG, path)
    assert is_dataset_of(path, staged)
    (path / "outputs" / "of-before").mkdir()

    manifest = staged / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8") + " ", "utf-8")

    assert not is_dataset_of(path, staged)
    write_dataset(staged, echo(), CONFIG, path)
    assert is_dataset_of(path, staged)
    assert of(path / "outputs" / "out") == [("k", "v")] * 3
    topics = sorted(directory.name for directory in (path / "outputs").iterdir())
    assert topics == ["out"]
    assert [file.name for file in staged.iterdir() if "dataset" in file.name] == ["dataset"]


def test_what_a_serde_leaves_to_the_configuration_is_typed_by_its_default(
    spark: Any, tmp_path: Path
) -> None:
    staged = staged_rows(tmp_path / "staged", 2, left_to_defaults)
    path = tmp_path / "dataset"

    write_dataset(staged, left_to_defaults(), CONFIG, path)

    assert of(path / "outputs" / "out") == [("k", "v")] * 2


def test_a_time_that_has_no_date_is_null(spark: Any, tmp_path: Path) -> None:
    """As in exports: what is later than the year 9999."""
    times = [253_402_300_799_999, 253_402_300_800_000, 2**60, 2**63 - 1]
    staged = staged_rows(tmp_path / "staged", times_ms=times)

    write_dataset(staged, echo(), CONFIG, tmp_path / "dataset")

    directory = tmp_path / "dataset" / "outputs" / "out"
    written = parquet.read_table(directory).to_pylist()
    found = [row["timestamp"] for row in sorted(written, key=lambda row: row["sequence"])]
    assert found[0].year == LAST_YEAR
    assert found[1:] == [None] * 3


def test_turns_of_records_that_come_back_are_in_no_data_set(spark: Any, tmp_path: Path) -> None:
    headers = ((), (("h", b"1"),))
    rows = [Row("orders", 0, at, 1000, b"ada", b"tea", given) for at, given in enumerate(headers)]
    counts = {"orders": 1, "alerts": 1, "numbered": 1}
    done, _ = run_on_spark(read_again_before(), CONFIG, rows, counts, tmp_path)

    path = tmp_path / "dataset"
    write_dataset(done.path, read_again_before(), CONFIG, path)

    for topic in ("alerts", "numbered"):
        found = parquet.read_table(path / "outputs" / topic).to_pylist()
        assert [row["headers"] for row in found] == [None, [{"key": "h", "value": b"1"}]]


def test_results_of_another_topology_are_refused(tmp_path: Path) -> None:
    staged = staged_rows(tmp_path / "staged", 3)
    other = StreamsBuilder()
    other.stream("in", **TEXT).to("elsewhere")

    for config in (CONFIG, {**CONFIG, "bootstrap_servers": "kafka:9092"}):
        with pytest.raises(PublishingRefusedError, match="the topology is not the one"):
            write_dataset(staged, other.build(), config, tmp_path / "dataset")

    assert not (tmp_path / "dataset").exists()


def test_files_that_are_not_of_a_data_set_are_left_alone(tmp_path: Path) -> None:
    staged = staged_rows(tmp_path / "staged", 3)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("42", "utf-8")

    with pytest.raises(StagingError, match=r"precious holds files that are not of a backfill's"):
        write_dataset(staged, echo(), CONFIG, precious)

    assert (precious / "thesis.tex").read_text("utf-8") == "42"


def test_results_of_which_rows_are_gone_do_not_replace_a_data_set(tmp_path: Path) -> None:
    staged = staged_rows(tmp_path / "staged", 3)
    next(staged.rglob("*.parquet")).unlink()

    with pytest.raises(StagingError, match=r"stage-0 holds 2 records of out, and 3 were staged"):
        write_dataset(staged, echo(), CONFIG, tmp_path / "dataset")

    assert list(tmp_path.iterdir()) == [staged]
