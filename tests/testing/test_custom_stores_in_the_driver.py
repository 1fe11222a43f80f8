"""Stores of a user's own in the test driver: they may have files, and leave none."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from pystreams import (
    ProcessingError,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.testing import TopologyTestDriver
from tests.stores.custom import CustomStore, OffsetKeepingStore, SqliteStore


class Count(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        self._store: SqliteStore = context.get_state_store("counts")

    def process(self, record: Record[str, str]) -> None:
        count = str(int(self._store.get(record.key) or 0) + 1)
        self._store.put(record.key, count)
        self._context.forward(Record(record.key, count, record.timestamp))


class CanNotBegin(Count):
    def init(self, context: ProcessorContext[str, str]) -> None:
        raise ValueError("no way")


def counting(kind: type[SqliteStore]) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(CustomStore("counts", kind))
    source = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counted = source.process(Count, stores=["counts"])
    counted.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


def counts_of(driver: TopologyTestDriver, *keys: str) -> list[tuple[str, str]]:
    source = driver.create_input_topic("in", serdes.STRING, serdes.STRING)
    output = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
    for key in keys:
        source.pipe_input(key, "")
    return output.read_key_values()


each_kind = pytest.mark.parametrize("kind", [SqliteStore, OffsetKeepingStore])
each_guarantee = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])


@each_kind
@each_guarantee
def test_without_a_state_directory_nothing_is_left(
    kind: type[SqliteStore], guarantee: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with TopologyTestDriver(counting(kind), {"processing.guarantee": guarantee}) as driver:
            assert counts_of(driver, "a", "a", "b") == [("a", "1"), ("a", "2"), ("b", "1")]

    assert list(tmp_path.iterdir()) == []


@each_kind
@each_guarantee
def test_in_a_state_directory_counts_go_on(
    kind: type[SqliteStore], guarantee: str, tmp_path: Path
) -> None:
    for count in ("1", "2"):
        with TopologyTestDriver(
            counting(kind), {"processing.guarantee": guarantee}, state_directory=tmp_path
        ) as driver:
            assert counts_of(driver, "a") == [("a", count)]


def test_a_topology_that_can_not_start_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    builder = StreamsBuilder()
    builder.add_state_store(CustomStore("counts", SqliteStore))
    source = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    source.process(CanNotBegin, stores=["counts"])

    with pytest.raises(ProcessingError, match="no way"):
        TopologyTestDriver(builder.build())

    assert list(tmp_path.iterdir()) == []
