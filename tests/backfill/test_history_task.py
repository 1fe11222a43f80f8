"""Tasks over their history give what a live run over the same records gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pystreams import serdes
from pystreams.backfill.rows import Result, ResultKind
from pystreams.ids import TopicPartition
from pystreams.record import ProducedRecord
from pystreams.testing import TopologyTestDriver
from pystreams.topology.builder import StreamsBuilder
from tests.backfill.in_process import Row, in_order, run
from tests.parity.golden import Observations, decoded, read
from tests.parity.topologies import TOPOLOGIES

CONFIG = {
    "application.id": "app",
    "default.key.serde": "string",
    "default.value.serde": "string",
    "statestore.cache.max.bytes": 0,
}

RACES = {("repartition_to_table", "left-joined")}
"""A stream that is repartitioned once more meets a table of itself: which of a record and its own
update comes first depends, in a live run, on when the two topics are fetched."""


def history_of(name: str) -> list[Row]:
    """What a golden file pipes in, as history."""
    rows: list[Row] = []
    offsets: dict[str, int] = {}
    for step in read(name)["steps"]:
        pipe = step.get("pipe")
        if pipe is None:
            continue
        topic = pipe["topic"]
        offset = offsets.setdefault(topic, 0)
        offsets[topic] += 1
        headers = tuple((key, decoded(value)) for key, value in pipe["headers"])
        key, value = decoded(pipe["key"]), decoded(pipe["value"])
        rows.append(Row(topic, 0, offset, pipe["timestamp"], key, value, headers))
    return rows


def live(name: str, rows: Sequence[Row], directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outputs by topic, and each logged store as changelog records, of the test driver."""
    topology = TOPOLOGIES[name](Observations())
    with TopologyTestDriver(topology, CONFIG, state_directory=directory) as driver:
        for row in in_order(rows):
            driver.pipe_raw(row.topic, row.key, row.value, row.timestamp, row.headers)
        outputs = {
            topic: list(driver.produced_raw(topic))
            for topic in driver.produced_topic_names()
            if not topic.endswith("-changelog")
        }
        states = {
            store: sorted(map(without_time, opened.changelog_records()), key=repr)
            for store, opened in driver.get_all_state_stores().items()
            if topology.stores[store].logging
        }
        return outputs, states


def without_time(record: ProducedRecord) -> tuple[bytes | None, bytes | None]:
    """A changelog record as a plain store keeps it."""
    return record[1], record[0]


def outputs_of(results: Sequence[Result]) -> dict[str, list[ProducedRecord]]:
    found: dict[str, list[ProducedRecord]] = {}
    for result in results:
        if result.kind is ResultKind.OUTPUT:
            record = (result.value, result.key, result.timestamp, result.headers)
            found.setdefault(result.name, []).append(record)
    return found


def states_of(results: Sequence[Result]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for result in results:
        if result.kind is ResultKind.STATE:
            found.setdefault(result.name, []).append((result.key, result.value))
    return {store: sorted(records, key=repr) for store, records in found.items()}


def by_key(records: Sequence[ProducedRecord]) -> dict[bytes | None, list[ProducedRecord]]:
    """The order that holds whatever the number of partitions is: that within a key."""
    found: dict[bytes | None, list[ProducedRecord]] = {}
    for record in records:
        found.setdefault(record[1], []).append(record)
    return found


@pytest.mark.parity
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_outputs_and_stores_equal_those_of_a_live_run(name: str, tmp_path: Path) -> None:
    rows = history_of(name)
    topics = {row.topic for row in rows}

    topology = TOPOLOGIES[name](Observations())
    results = run(topology, CONFIG, rows, dict.fromkeys(topics, 1), tmp_path / "backfill")
    outputs, states = live(name, rows, tmp_path / "live")

    found = outputs_of(results)
    assert found.keys() == outputs.keys()
    for topic, records in outputs.items():
        if (name, topic) not in RACES:
            assert by_key(found[topic]) == by_key(records), topic
    assert states_of(results) == {store: records for store, records in states.items() if records}


def test_end_says_how_far_each_partition_was_read(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream(["a", "b"], key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.to("out")
    rows = [
        Row("a", 0, 4, 50, b"k", b"v"),
        Row("a", 0, 7, 20, b"k", b"v"),
        Row("b", 0, 0, 30, b"k", b"v"),
    ]
    results = run(builder.build(), CONFIG, rows, {"a": 1, "b": 1}, tmp_path)

    ends = {
        TopicPartition(result.name, result.partition): (result.sequence, result.timestamp)
        for result in results
        if result.kind is ResultKind.END
    }
    assert ends == {TopicPartition("a", 0): (8, 50), TopicPartition("b", 0): (1, 30)}


def test_order_is_that_of_a_partition_group() -> None:
    rows = [
        *(Row("a", 0, offset, time, None, None) for offset, time in enumerate([5, 3, 9])),
        *(Row("b", 0, offset, time, None, None) for offset, time in enumerate([4, 6])),
    ]
    taken = [f"{row.topic}{row.timestamp}" for row in in_order(rows)]

    assert taken == ["b4", "a5", "a3", "b6", "a9"]
