"""Outputs as a data set: typed where the serde has a type that Parquet has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystreams import serdes
from pystreams.backfill.dataset import write_dataset
from pystreams.topology.builder import StreamsBuilder
from pystreams.topology.topology import Topology
from tests.backfill.covered import CONFIG, TEXT
from tests.backfill.in_process import Row
from tests.backfill.on_spark import run_on_spark


def typed() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT)
    stream.map(lambda _, value: (int(value), -int(value))).to(
        "numbers", key_serde=serdes.INT, value_serde=serdes.LONG
    )
    stream.map_values(lambda value: int(value) / 4).to("halves", value_serde=serdes.DOUBLE)
    stream.map_values(lambda value: {"n": int(value)}).to("json", value_serde=serdes.JSON)
    stream.map_values(lambda value: value.encode()).to("raw", value_serde=serdes.BYTES)
    stream.group_by(lambda _, value: value, name="again", **TEXT).count(name="counts")
    return builder.build()


def test_keys_and_values_are_of_their_serde_s_type(spark: Any, tmp_path: Path) -> None:
    rows = [Row("in", 0, 0, 1500, b"a", b"7"), Row("in", 0, 1, 2500, None, b"-9")]
    done, _ = run_on_spark(typed(), CONFIG, rows, {"in": 1}, tmp_path)

    written = write_dataset(done.path, typed(), CONFIG, tmp_path / "dataset")

    assert written == dict.fromkeys(["halves", "json", "numbers", "raw"], 2)
    found = {
        topic: spark.read.parquet(str(tmp_path / "dataset" / topic)).orderBy("sequence").collect()
        for topic in written
    }
    assert [(row.key, row.value) for row in found["numbers"]] == [(7, -7), (-9, 9)]
    assert [(row.key, row.value) for row in found["halves"]] == [("a", 1.75), (None, -2.25)]
    assert [row.value for row in found["json"]] == ['{"n":7}', '{"n":-9}']
    assert [bytes(row.value) for row in found["raw"]] == [b"7", b"-9"]
    assert [row.timestamp.timestamp() for row in found["raw"]] == [1.5, 2.5]
